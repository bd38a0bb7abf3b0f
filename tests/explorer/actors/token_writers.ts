import { numberBytes } from "../../support/sessions/binary_text.ts";
import { type Actor, AGAIN, type Answer, type Ask, ask, commit, firstWord } from "../steps.ts";
import { askBinary, extraIn, STATUS, statusOf } from "./binary.ts";

// Writers that use update tokens: a token in every cache, the commit, the releases.

const TOKEN_ID_BYTES = 8;

/** token get: `token` and its id; refused: the writer must not write. */
function readToken(reply: string): Answer {
  if (reply.startsWith("LOCKED")) return AGAIN;
  const id = /^TOKEN (\d+)/.exec(reply)?.[1];
  return id === undefined ? { word: "refused", id: 0 } : { word: "token", id: Number(id) };
}

/** @param owner The writer's tag; empty: none, so that a lost reply cannot be asked for again. */
function takeToken(owner: string, cache = 0): Ask {
  const step = ask(owner === "" ? "token get k" : `token get k ${owner}`, readToken);
  return { ...step, cache, isRepeatable: true };
}

function releaseToken(id: number, cache = 0): Ask {
  return { ...ask(`token release k ${id}`, firstWord), cache, isRepeatable: true };
}

/** Yields a step until it comes to something. */
function* untilDone(step: Ask): Generator<Ask, Answer, Answer> {
  for (;;) {
    const answer = yield step;
    if (answer !== AGAIN) return answer;
  }
}

/** Takes the tokens of all caches, in their order; when one is refused it gives back those it has. */
function* takeTokens(
  owner: string,
  caches: number,
): Generator<Ask, readonly number[] | undefined, Answer> {
  const ids: number[] = [];
  for (let cache = 0; cache < caches; cache++) {
    const { id } = yield* untilDone(takeToken(owner, cache));
    if (id === 0) {
      yield* releaseTokens(ids);
      return undefined;
    }
    ids.push(id);
  }
  return ids;
}

function* releaseTokens(ids: readonly number[]): Generator<Ask, void, Answer> {
  for (const [cache, id] of ids.entries()) yield releaseToken(id, cache);
}

/** The rules, for a writer that knows so many caches. */
function* write(owner: string, caches: number): Actor {
  const ids = yield* takeTokens(owner, caches);
  if (ids === undefined) return;
  yield commit;
  yield* releaseTokens(ids);
}

export function tokenWriter(name: string): Actor {
  return write(name, 1);
}

export function twoCachesWriter(name: string): Actor {
  return write(name, 2);
}

/** Breaks a rule: it gives no tag, so a token whose reply is lost stays out. */
export function anonymousWriter(): Actor {
  return write("", 1);
}

/** Breaks a rule: it releases before it commits. */
export function* earlyReleasingWriter(name: string): Actor {
  const { id } = yield* untilDone(takeToken(name));
  yield releaseToken(id);
  yield commit;
}

/** Like `tokenWriter`, but releases twice. */
export function* twiceReleasingWriter(name: string): Actor {
  const { id } = yield* untilDone(takeToken(name));
  yield commit;
  yield releaseToken(id);
  yield releaseToken(id);
}

/** Takes a token and gives it back: nothing was written. */
export function* abortingWriter(name: string): Actor {
  const { id } = yield* untilDone(takeToken(name));
  yield releaseToken(id);
}

/** Locks the value first, and takes the token while it holds the lock. */
export function* lockingTokenWriter(name: string): Actor {
  yield ask("lock k", firstWord);
  yield* write(name, 1);
}

/** Like `tokenWriter`, in the binary protocol. */
export function* binaryTokenWriter(name: string): Actor {
  const take = askBinary("TokenGet", "", readBinaryToken, { value: name });
  const { id } = yield* untilDone({ ...take, isRepeatable: true });
  if (id === 0) return;
  yield commit;
  const release = askBinary("TokenRelease", numberBytes(id, TOKEN_ID_BYTES));
  yield { ...release, isRepeatable: true };
}

function readBinaryToken(reply: string): Answer {
  const status = statusOf(reply);
  if (status === STATUS.LOCKED) return AGAIN;
  if (status !== STATUS.OK) return { word: "refused", id: 0 };
  return { word: "token", id: extraIn(reply, 0, TOKEN_ID_BYTES) };
}
