import { LockedError, UnsupportedError } from "../errors.ts";
import { type ClientFlow, step } from "./steps.ts";

const FIRST_PAUSE_MS = 10;
const PAUSE_MS_MAX = 500;

/** Keys that a server did not confirm, with the last reason. */
export interface Unfinished<Item> {
  readonly items: readonly Item[];
  readonly cause: unknown;
}

/** An update token that is out. */
export interface Token {
  readonly key: string;
  readonly id: string;
}

/** The result of a transaction, and the steps behind it that were not confirmed. */
export interface Put<Item> {
  readonly result: unknown;
  readonly unfinished: Unfinished<Item> | undefined;
}

/** A commit that threw: whether it did nothing, or its outcome is unknown. */
export class CommitError<Item> extends Error {
  constructor(
    readonly error: unknown,
    readonly unfinished: Unfinished<Item> | undefined,
    /** Tokens that stay out, because the outcome is unknown. */
    readonly kept: readonly Token[] = [],
  ) {
    super("the commit failed", { cause: error });
  }
}

/** No tokens, hence no commit; those that were taken before may still be out. */
export class NoTokenError extends Error {
  constructor(readonly error: unknown, readonly unfinished: Unfinished<Token>) {
    super("no update tokens", { cause: error });
  }
}

/** Commits, then invalidates, whatever the commit's outcome (rule R5). @throws CommitError */
export function* putWithLeases(
  keys: readonly string[],
  limitMs: number,
): ClientFlow<unknown, Put<string>> {
  let result: unknown;
  try {
    result = yield* step({ kind: "commit" });
  } catch (error) {
    throw new CommitError(error, yield* invalidateFlow(keys, limitMs));
  }
  return { result, unfinished: yield* invalidateFlow(keys, limitMs) };
}

/** Invalidates keys, again and again until all servers have confirmed, or for `limitMs`. */
export function* invalidateFlow(
  keys: readonly string[],
  limitMs: number,
): ClientFlow<unknown, Unfinished<string> | undefined> {
  const pauses = pausesFor(limitMs);
  let spentMs: number | undefined;
  for (let items = keys;;) {
    const failed = yield* step({ kind: "invalidate", keys: items });
    if (failed.size === 0) return undefined;
    items = [...failed.keys()];
    const pause = pauses.next(spentMs);
    if (pause.done) return { items, cause: [...failed.values()][0] };
    spentMs = yield* step({ kind: "sleep", ms: pause.value });
  }
}

/**
 * Takes update tokens, commits, then releases them; a token whose commit may still take effect is kept (rule R7).
 *
 * @param keys In the order in which all writers take them.
 * @param owner The tag of this transaction, used by no other one.
 * @param isRolledBack Whether an error of the commit proves that nothing was or will be committed.
 * @throws CommitError, or why a token was not given: then nothing was committed. NoTokenError: and others stay out.
 */
export function* putWithTokens(
  keys: readonly string[],
  owner: string,
  limitMs: number,
  isRolledBack: (error: unknown) => boolean,
): ClientFlow<unknown, Put<Token>> {
  const tokens: Token[] = [];
  try {
    for (const key of keys) tokens.push({ key, id: yield* takeToken(key, owner, limitMs) });
  } catch (error) {
    const unfinished = yield* releaseFlow(tokens, limitMs);
    throw unfinished === undefined ? error : new NoTokenError(error, unfinished);
  }
  let result: unknown;
  try {
    result = yield* step({ kind: "commit" });
  } catch (error) {
    if (!proves(isRolledBack, error)) throw new CommitError(error, undefined, tokens);
    throw new CommitError(error, yield* releaseFlow(tokens, limitMs));
  }
  return { result, unfinished: yield* releaseFlow(tokens, limitMs) };
}

/** Whether the application says so: a promise or an exception is no proof. */
function proves(isRolledBack: (error: unknown) => boolean, error: unknown): boolean {
  try {
    return isRolledBack(error) === true;
  } catch {
    return false;
  }
}

/** Asks with the same tag until a token is given: after a lost reply it is the same token. */
export function* takeToken(
  key: string,
  owner: string,
  limitMs: number,
): ClientFlow<unknown, string> {
  const pauses = pausesFor(limitMs);
  let spentMs: number | undefined;
  for (;;) {
    let failure: unknown;
    try {
      const id = yield* step({ kind: "takeToken", key, owner });
      if (id !== undefined) return id;
      failure = new LockedError({ server: "", command: "token", key });
    } catch (error) {
      // It will not know the command a moment later either.
      if (error instanceof UnsupportedError) throw error;
      failure = error;
    }
    const pause = pauses.next(spentMs);
    if (pause.done) throw failure;
    spentMs = yield* step({ kind: "sleep", ms: pause.value });
  }
}

/** Releases tokens, again and again until all servers have confirmed, or for `limitMs`. */
export function* releaseFlow(
  tokens: readonly Token[],
  limitMs: number,
): ClientFlow<unknown, Unfinished<Token> | undefined> {
  const pauses = pausesFor(limitMs);
  let spentMs: number | undefined;
  for (let items = tokens;;) {
    const left: Token[] = [];
    let cause: unknown;
    for (const token of items) {
      try {
        yield* step({ kind: "releaseToken", ...token });
      } catch (error) {
        left.push(token);
        cause = error;
      }
    }
    if (left.length === 0) return undefined;
    items = left;
    const pause = pauses.next(spentMs);
    if (pause.done) return { items, cause };
    spentMs = yield* step({ kind: "sleep", ms: pause.value });
  }
}

/**
 * Growing pauses in ms: with the attempts between them they take `limitMs` together. Each is given, by `next`, the time
 * that the one before it took with the attempt before that, in ms; by default the pause alone.
 */
export function* pausesFor(limitMs: number): Generator<number, void, number | undefined> {
  let pauseMs = FIRST_PAUSE_MS;
  for (let leftMs = limitMs; leftMs > 0; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const ms = Math.min(pauseMs, leftMs);
    const spentMs = yield ms;
    leftMs -= Math.max(ms, spentMs ?? 0);
  }
}
