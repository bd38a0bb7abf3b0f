import type { RowFlow } from "../../lib/rows/flows/steps.ts";
import type { Flows } from "../../lib/rows/flows/flows.ts";

/** Knowledge an actor gained in a step: a word, and an id or 0. */
export interface Answer {
  readonly word: string;
  readonly id: number;
}

export const NOTHING: Answer = { word: "", id: 0 };
/** The step came to nothing: the actor is where it was, and will do it again. */
export const AGAIN: Answer = { word: "again", id: 0 };

/** The database: one row, of which there is a version. */
export interface Database {
  /** The version that is committed. */
  committed: number;
}

interface AnyStep {
  /** A writer's update is complete with it, although the writer goes on. */
  readonly endsUpdate?: boolean;
}

/** One command to a cache, or the beginning of one. */
export interface Ask extends AnyStep {
  readonly kind: "ask";
  /** Number of the cache, from 0. */
  readonly cache: number;
  readonly request: string;
  /** The actor sends the command again when its connection is lost before the reply. */
  readonly isRepeatable?: boolean;
  /** Extracts the actor's knowledge from the reply; undefined: the actor ignores the reply. */
  read(reply: string): Answer | undefined;
}

/** One step that no cache sees. */
export interface Act extends AnyStep {
  readonly kind: "act";
  readonly note: string;
  act(database: Database): Answer | undefined;
}

/** One request to an origin. */
export interface Call extends AnyStep {
  readonly kind: "call";
  /** Number of the origin, from 0. */
  readonly origin: number;
  readonly note: string;
  /** The actor sends the request again when it gets no reply. */
  readonly isRepeatable?: boolean;
  /** The lesson of a missing reply, if it gets none, and does not send the request again. */
  readonly lost?: Answer;
  /** A read, whose answer another read may get as well. */
  readonly isRead?: boolean;
  /** The answer is a version, which must not be older than what was committed before the call. */
  readonly isLinear?: boolean;
  /** Begins it: a flow, or an answer at once. */
  call(flows: Flows): RowFlow<Answer> | Answer;
}

export type Step = Ask | Act | Call;

/** A client: it yields its steps one by one and keeps only what their replies say. */
export type Actor = Generator<Step, void, Answer>;

/** Makes a client. @param name Its own: the letter of its connections. */
export type MakeActor = (name: string) => Actor;

/**
 * Lease times in seconds, of readers and of invalidations. Long enough to play a found transcript
 * to a server on a busy machine.
 */
export const LEASE_SEC = 20;
export const INVALIDATION_SEC = 10;

/** A text command to the first cache. */
export function ask(request: string, read: Ask["read"] = () => undefined): Ask {
  return { kind: "ask", cache: 0, request: `${request}\r\n`, read };
}

/** The same step, with which the update is complete. */
export function completing(step: Step): Step {
  return { ...step, endsUpdate: true };
}

/** The reply's first word. */
export function firstWord(reply: string): Answer {
  return { word: /^\w*/.exec(reply)![0], id: 0 };
}

export const readRow: Act = {
  kind: "act",
  note: "reads the row: version ",
  act: ({ committed }) => ({ word: `${committed}`, id: 0 }),
};
export const commit: Act = {
  kind: "act",
  note: "commits version ",
  act: (database) => ({ word: `${++database.committed}`, id: 0 }),
};

export const cas = (version: string, id: number): Ask =>
  ask(`cas k 0 0 1 ${id}\r\n${version}`, firstWord);
export const set = (version: string): Ask => ask(`set k 0 0 1\r\n${version}`, firstWord);
