import { assert } from "../../../store/base/assert.ts";

/**
 * Update tokens at an origin: a writer's claim on a key, from before it deletes the key in the caches until its write
 * is committed. The origin itself writes, so a token may be revoked at any time but one: while its write runs.
 *
 *   state     begins with                allowed                            next state
 *   idle      token get                  write, release, revoke             busy; revoked; none, when released
 *   busy      a write under the token    nothing: the reply is BUSY         used; unknown; idle, when the database
 *                                                                           certainly wrote nothing
 *   unknown   a write without outcome    resolve                            busy until the database answers
 *   used      the write's commit         the same write: the same reply     none, when many others have ended
 *   revoked   revoke of an idle token    nothing: the write is refused      none, when many others have ended
 *
 * A key is cacheable while it has no token that is idle, busy or unknown. A cache may keep a value read from the
 * database only if the key was cacheable before the read began.
 */
export type TokenState = "idle" | "busy" | "unknown" | "used" | "revoked";

/** An update token, as `token list` shows it. */
export interface RowToken {
  readonly id: number;
  readonly key: string;
  /** The tag that the writer chose; "": none. */
  readonly owner: string;
  readonly state: TokenState;
  /** When it was taken, on the clock of the states. */
  readonly sinceMs: number;
  /** The version that its write gave the row; 0 before. */
  readonly version: number;
}

/** The result of `beginPut`. */
export type PutStart =
  /** The token is busy now: write, then call `endPut`. */
  | { readonly kind: "begun" }
  /** The token is used: its write is committed, with this version. */
  | { readonly kind: "used"; readonly version: number }
  | { readonly kind: "busy" }
  | { readonly kind: "revoked" }
  /** The outcome of an earlier write is unknown. The token is busy now: ask the database, then call `endPut`. */
  | { readonly kind: "unknown" }
  /** No token has this id on this key; it may have been forgotten. */
  | { readonly kind: "none" };

/** How a write ended. */
export type PutEnd =
  | {
    readonly kind: "committed";
    readonly version: number;
    /** No other server knows the token, so this write is not asked for again. */
    readonly isForgotten?: boolean;
  }
  /** The database certainly wrote nothing. */
  | { readonly kind: "failed" }
  /** The outcome is unknown. */
  | { readonly kind: "unknown" };

/** The result of `revoke`. */
export interface Revoked {
  readonly revoked: number;
  /** Tokens whose writes run, or whose ends are unknown: they cannot be revoked now. */
  readonly busy: number;
}

/** Ids of each epoch. Ids of two epochs never collide, and all stay below 2^53. */
const IDS_PER_EPOCH = 2 ** 32;
/** The highest epoch whose ids stay below 2^53. */
export const EPOCH_MAX = 2 ** 21 - 1;

/** Returns the epoch of the origin that has given an id. */
export function epochOf(id: number): number {
  return Math.floor(id / IDS_PER_EPOCH);
}

interface Token {
  id: number;
  key: string;
  owner: string;
  state: TokenState;
  sinceMs: number;
  version: number;
}

/** A limit of the origin is reached. */
export class TokenLimitError extends Error {
  override readonly name = "TokenLimitError";
}

/**
 * The update tokens of one origin in one epoch. No socket, no clock, no database: every call is one uninterrupted step
 * and never waits.
 */
export class TokenStates {
  readonly epoch: number;
  readonly #tokensMax: number;
  readonly #endedMax: number;
  readonly nowMs: () => number;
  #lastId: number;
  /** Live tokens, by key: idle, busy, unknown. */
  readonly #live = new Map<string, Map<number, Token>>();
  #liveCount = 0;
  /** Ended tokens, the oldest first: they answer retries. */
  readonly #ended = new Map<number, Token>();

  /**
   * @param epoch 1..EPOCH_MAX, larger than that of every earlier origin.
   * @param tokensMax Most live tokens at the same time.
   * @param endedMax Most ended tokens to remember.
   * @param nowMs A clock, for the age of tokens.
   */
  constructor(epoch: number, tokensMax: number, endedMax: number, nowMs = () => 0) {
    if (!(epoch >= 1 && epoch <= EPOCH_MAX)) {
      throw new RangeError(`epoch ${epoch}: must be 1..${EPOCH_MAX}`);
    }
    this.epoch = epoch;
    this.#tokensMax = tokensMax;
    this.#endedMax = endedMax;
    this.nowMs = nowMs;
    this.#lastId = epoch * IDS_PER_EPOCH;
  }

  /** Whether a cache may keep a value whose read begins now. Call it before the read. */
  isCacheable(key: string): boolean {
    return !this.#live.has(key);
  }

  /**
   * Creates a token on the key, or returns the owner's live token on the key.
   *
   * @param owner The writer's tag; "": none.
   * @returns The token's id.
   * @throws TokenLimitError when there are too many live tokens.
   */
  get(key: string, owner: string): number {
    const tokens = this.#live.get(key);
    if (owner !== "" && tokens !== undefined) {
      for (const token of tokens.values()) if (token.owner === owner) return token.id;
    }
    if (this.#liveCount >= this.#tokensMax) {
      throw new TokenLimitError("too many update tokens");
    }
    const id = ++this.#lastId;
    assert(id < (this.epoch + 1) * IDS_PER_EPOCH, "an id belongs to its epoch");
    const token: Token = { id, key, owner, state: "idle", sinceMs: this.nowMs(), version: 0 };
    if (tokens === undefined) this.#live.set(key, new Map([[id, token]]));
    else tokens.set(id, token);
    this.#liveCount++;
    return id;
  }

  /**
   * Begins a write under a token, or the question what became of it: one that was idle or unknown is busy from here on,
   * so that no second question is answered when the first answer has made a new write possible.
   */
  beginPut(key: string, id: number): PutStart {
    const token = this.#find(key, id);
    switch (token?.state) {
      case "idle":
        token.state = "busy";
        return { kind: "begun" };
      case "unknown":
        token.state = "busy";
        return { kind: "unknown" };
      case "used":
        return { kind: "used", version: token.version };
      case undefined:
        return { kind: "none" };
      default:
        return { kind: token!.state as "busy" | "revoked" };
    }
  }

  /** Returns the tag that the writer chose for a live token; "": none. */
  ownerOf(key: string, id: number): string {
    return this.#live.get(key)?.get(id)?.owner ?? "";
  }

  /** Ends the write that `beginPut` began, or whose outcome was unknown. */
  endPut(key: string, id: number, end: PutEnd): void {
    const token = this.#live.get(key)?.get(id);
    if (token === undefined || token.state === "idle") {
      throw new Error("a write ends that has not begun");
    }
    assert(token.version === 0, "a token's write is committed once");
    switch (end.kind) {
      case "committed":
        assert(end.version > 0, "a committed row has a version");
        token.version = end.version;
        return end.isForgotten === true ? this.#forget(token) : this.#end(token, "used");
      case "failed":
        token.state = "idle";
        return;
      case "unknown":
        token.state = "unknown";
    }
  }

  /** Ends an idle token at its owner's request. */
  release(key: string, id: number): "released" | "none" | "busy" {
    const token = this.#live.get(key)?.get(id);
    if (token === undefined) return "none";
    if (token.state !== "idle") return "busy";
    this.#forget(token);
    return "released";
  }

  /** Ends idle tokens of the key without their owners: the one with this id, or all. */
  revoke(key: string, id?: number): Revoked {
    let revoked = 0;
    let busy = 0;
    for (const token of [...this.#live.get(key)?.values() ?? []]) {
      if (id !== undefined && token.id !== id) continue;
      if (token.state === "idle") {
        this.#end(token, "revoked");
        revoked++;
      } else {
        busy++;
      }
    }
    return { revoked, busy };
  }

  /** Yields the live tokens on keys that begin with a prefix; none that is created while the caller works. */
  *list(prefix = ""): Generator<RowToken> {
    const lastId = this.#lastId;
    for (const [key, tokens] of this.#live) {
      if (!key.startsWith(prefix)) continue;
      for (const token of tokens.values()) if (token.id <= lastId) yield token;
    }
  }

  /** Returns the number of tokens in each state. */
  counts(): Record<TokenState, number> {
    const counts = { idle: 0, busy: 0, unknown: 0, used: 0, revoked: 0 };
    for (const token of this.list()) counts[token.state]++;
    for (const token of this.#ended.values()) counts[token.state]++;
    return counts;
  }

  /** Returns the age of the oldest live token in seconds, or 0 without one. */
  oldestAgeSec(): number {
    const nowMs = this.nowMs();
    let oldestMs = nowMs;
    for (const { sinceMs } of this.list()) oldestMs = Math.min(oldestMs, sinceMs);
    return Math.floor((nowMs - oldestMs) / 1000);
  }

  #find(key: string, id: number): Token | undefined {
    const token = this.#live.get(key)?.get(id) ?? this.#ended.get(id);
    return token?.key === key ? token : undefined;
  }

  #end(token: Token, state: "used" | "revoked"): void {
    this.#forget(token);
    token.state = state;
    this.#ended.set(token.id, token);
    if (this.#ended.size <= this.#endedMax) return;
    const [oldest] = this.#ended.keys();
    this.#ended.delete(oldest!);
  }

  #forget(token: Token): void {
    const tokens = this.#live.get(token.key)!;
    const wasOut = tokens.delete(token.id);
    assert(wasOut, "a token that ends was out");
    this.#liveCount--;
    assert(this.#liveCount >= 0, "live tokens are counted");
    if (tokens.size === 0) this.#live.delete(token.key);
    assert((this.#liveCount === 0) === (this.#live.size === 0), "a key is held by its tokens");
  }
}
