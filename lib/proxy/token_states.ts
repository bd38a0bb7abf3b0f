/**
 * Update tokens at a proxy: a writer's claim on a key, from before it deletes the key in the caches until its write is
 * committed. It is the proxy that writes, so a token may be revoked at any time but one: while its write runs.
 *
 *   state     how it begins                      who may do what                       how it ends
 *   idle      token get                          the owner writes or releases it,      busy; revoked; released: none
 *                                                anybody revokes it
 *   busy      a write with it has begun          nothing: BUSY                         used; idle, when the database
 *                                                                                      surely wrote nothing; unknown
 *   unknown   the database did not say what      anybody has the database asked        busy until it answers
 *             became of the write
 *   used      the write is committed             the same write again gives the same   forgotten after a while
 *                                                answer
 *   revoked   revoke of an idle token            the write is refused                  forgotten after a while
 *
 * A key is cacheable while it has no token that is idle, busy or unknown. What is read from the database may be kept by
 * a cache only if the key was cacheable before the read began.
 */
export type TokenState = "idle" | "busy" | "unknown" | "used" | "revoked";

/** An update token, as lists show it. */
export interface ProxyToken {
  readonly id: number;
  readonly key: string;
  /** The tag that the writer chose; "": none. */
  readonly owner: string;
  readonly state: TokenState;
  /** The version that its write gave the row; 0 before. */
  readonly version: number;
}

/** How an attempt to write under a token begins. */
export type PutStart =
  /** The token is busy now: write, then call `endPut`. */
  | { readonly kind: "begun" }
  /** It has been used: the write is committed with this version. */
  | { readonly kind: "used"; readonly version: number }
  | { readonly kind: "busy" }
  | { readonly kind: "revoked" }
  /** The database did not say what became of an earlier attempt. The token is busy now: ask it, then call `endPut`. */
  | { readonly kind: "unknown" }
  /** No such token is known here. */
  | { readonly kind: "none" };

/** How a write ended. */
export type PutEnd =
  | { readonly kind: "committed"; readonly version: number }
  /** The database surely wrote nothing. */
  | { readonly kind: "failed" }
  /** The database did not say. */
  | { readonly kind: "unknown" };

/** What a revocation came to. */
export interface Revoked {
  readonly revoked: number;
  /** Tokens whose writes run, or whose ends are unknown: they cannot be revoked now. */
  readonly busy: number;
}

/** From an epoch to the first id of its tokens: ids of two epochs never meet, and all stay below 2^53. */
const IDS_PER_EPOCH = 2 ** 32;
/** The highest epoch whose ids stay below 2^53. */
export const EPOCH_MAX = 2 ** 21 - 1;

interface Token {
  id: number;
  key: string;
  owner: string;
  state: TokenState;
  version: number;
}

/** A limit that a proxy has. */
export class TokenLimitError extends Error {
  override readonly name = "TokenLimitError";
}

/**
 * The update tokens of one proxy in one epoch. No socket, no clock, no database: every call is one uninterrupted step,
 * and whoever calls does the waiting.
 */
export class TokenStates {
  readonly epoch: number;
  readonly #tokensMax: number;
  readonly #endedMax: number;
  #lastId: number;
  /** Live tokens, by key: idle, busy, unknown. */
  readonly #live = new Map<string, Map<number, Token>>();
  #liveCount = 0;
  /** Ended tokens, the oldest first: they answer retries. */
  readonly #ended = new Map<number, Token>();

  /**
   * @param epoch Larger than that of every proxy before: 1..EPOCH_MAX.
   * @param tokensMax Live tokens at the same time.
   * @param endedMax Ended tokens that are remembered.
   */
  constructor(epoch: number, tokensMax: number, endedMax: number) {
    if (!(epoch >= 1 && epoch <= EPOCH_MAX)) {
      throw new RangeError(`epoch ${epoch}: must be 1..${EPOCH_MAX}`);
    }
    this.epoch = epoch;
    this.#tokensMax = tokensMax;
    this.#endedMax = endedMax;
    this.#lastId = epoch * IDS_PER_EPOCH;
  }

  /** Whether what is read from now on may be kept by a cache. To be asked before the read begins. */
  isCacheable(key: string): boolean {
    return !this.#live.has(key);
  }

  /**
   * Gives a token on the key. An owner that has a live one on the key gets that one again.
   *
   * @param owner "": none.
   * @returns Its id.
   * @throws TokenLimitError when there are too many live tokens.
   */
  get(key: string, owner: string): number {
    const tokens = this.#live.get(key);
    if (owner !== "" && tokens !== undefined) {
      for (const token of tokens.values()) if (token.owner === owner) return token.id;
    }
    if (this.#liveCount >= this.#tokensMax) {
      throw new TokenLimitError(`too many update tokens: at most ${this.#tokensMax}`);
    }
    const id = ++this.#lastId;
    const token: Token = { id, key, owner, state: "idle", version: 0 };
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

  /** The write that `beginPut` began, or whose end was unknown, has ended. */
  endPut(key: string, id: number, end: PutEnd): void {
    const token = this.#live.get(key)?.get(id);
    if (token === undefined || token.state === "idle") {
      throw new Error("a write ends that has not begun");
    }
    switch (end.kind) {
      case "committed":
        token.version = end.version;
        return this.#end(token, "used");
      case "failed":
        token.state = "idle";
        return;
      case "unknown":
        token.state = "unknown";
    }
  }

  /** The owner gives its token up. */
  release(key: string, id: number): "released" | "none" | "busy" {
    const token = this.#live.get(key)?.get(id);
    if (token === undefined) return "none";
    if (token.state !== "idle") return "busy";
    this.#forget(token);
    return "released";
  }

  /** Ends idle tokens of the key without asking their owners: the one with this id, or all. */
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

  /** Live tokens on keys that begin with a prefix. */
  *list(prefix = ""): Generator<ProxyToken> {
    for (const [key, tokens] of this.#live) {
      if (key.startsWith(prefix)) yield* tokens.values();
    }
  }

  /** How many tokens are in each state. */
  counts(): Record<TokenState, number> {
    const counts = { idle: 0, busy: 0, unknown: 0, used: 0, revoked: 0 };
    for (const token of this.list()) counts[token.state]++;
    for (const token of this.#ended.values()) counts[token.state]++;
    return counts;
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
    tokens.delete(token.id);
    this.#liveCount--;
    if (tokens.size === 0) this.#live.delete(token.key);
  }
}
