import { assert } from "@std/assert";
import type { Awaitable } from "../../../lib/client/values/awaitable.ts";
import type { Codec } from "../../../lib/client/values/codecs.ts";
import { encodeEntry, lookFor } from "../../../lib/client/values/entries.ts";
import { loadFlow, type LoadSettings } from "../../../lib/client/flows/load.ts";
import { CommitError, putWithLeases, putWithTokens } from "../../../lib/client/flows/put.ts";
import type {
  ClientFlow,
  KeyState,
  Step as FlowStep,
  StepKind,
  StepResults,
} from "../../../lib/client/flows/steps.ts";
import * as requests from "../../../lib/client/requests.ts";
import { TextWire } from "../../../lib/client/net/text_wire.ts";
import type { Request } from "../../../lib/client/net/wire.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";
import { KEY } from "../key_record.ts";
import { type Actor, type Answer, commit, LEASE_SEC, readRow, type Step } from "../steps.ts";

// The flows of the client library, with its own requests. The row's key is in the first cache; if there is a tag, the
// same key in the second cache is the tag's.

const TAG = "t";
const TAG_CACHE = 1;

const AWAY = new Error("no reply");

/** Versions of the row. The explorer reads the first character of a value. */
const codec: Codec<string> = {
  encode: (version) => ({ bytes: bytesOf(`${version}x`), flags: 0 }),
  decode: (bytes) => textOf(bytes).replace("x", ""),
};

/** Of writers whose first attempt fails: for a second one. */
const LIMIT_MS = 1000;

/** Longer than any value has left. */
export const GRACE_SEC = 1000;

const SETTINGS: LoadSettings = {
  waitMs: 0,
  absentSec: 0,
  refreshSec: 0,
  graceSec: 0,
  softMs: 0,
  tags: [],
};

/** A rule that a client breaks. */
export type Fault =
  /** R1: reads the row before it asks for the lease. */
  | "reads first"
  /** R2: fills again with the value that was refused. */
  | "repeats fill"
  /** R3, R10: fills under the lease of another. */
  | "borrows lease"
  /** R4: fills by `set`. */
  | "fills by set"
  /** R5: invalidates before the commit. */
  | "invalidates first"
  /** Takes the token, and releases it, before the commit. */
  | "releases first"
  /** R8: the driver repeats the write after the release. */
  | "commits again"
  /** Notes the tag's version after the load. */
  | "notes tag late";

/** A part of the world that a client's steps fail at; what is done again is done the second time. */
export type Outage =
  /** The database fails each load. */
  | "loads"
  /** A look takes its lease, and its reply is lost. */
  | "looks"
  /** The server of the tag is away. */
  | "tags"
  /** An invalidation does not arrive. */
  | "invalidations"
  /** An invalidation takes place, and its reply is lost. */
  | "replies to invalidations"
  /** The end of a token takes place, and its reply is lost. */
  | "replies to releases";

interface Behaviour {
  readonly fault?: Fault | undefined;
  readonly outage?: Outage | undefined;
  /** The commit's reply is lost: it takes effect after the flow. */
  readonly isCommitLate?: boolean;
}

/** Sends a request of the library. @param tell What the actor knows of the result. */
function* send<Result>(
  cache: number,
  request: Request<Result>,
  tell: (result: Result) => Answer,
  isRepeatable = false,
): Generator<Step, Result, Answer> {
  let result!: Result;
  const value = request.value === undefined ? "" : `${textOf(request.value)}\r\n`;
  yield {
    kind: "ask",
    cache,
    request: new TextWire().headOf(request, 1) + value,
    isRepeatable,
    read: (text) => {
      const wire = new TextWire();
      wire.add(bytesOf(text));
      result = atOnce(request.read(wire.next(request.shape)!));
      return tell(result);
    },
  };
  return result;
}

/** The codec needs no promises. */
function atOnce<Value>(value: Awaitable<Value>): Value {
  assert(!(value instanceof Promise));
  return value;
}

const word = (text: unknown, id = 0): Answer => ({ word: String(text), id });

/** Executes the steps of one flow. */
class Player {
  readonly #behaviour: Behaviour;
  readonly #tags: readonly string[];
  /** What a faulty client has read of the row too early. */
  #read: string | undefined;
  /** Whether its outage is over: of what is done again. */
  #hasFailed = false;

  constructor(behaviour: Behaviour, tags: readonly string[]) {
    this.#behaviour = behaviour;
    this.#tags = tags;
  }

  *play(made: ClientFlow<string, void> | ClientFlow<unknown, unknown>): Actor {
    const flow = made as ClientFlow<string, unknown>;
    let next = flow.next();
    while (!next.done) {
      let result: StepResults<string>[StepKind];
      try {
        result = yield* this.#execute(next.value);
      } catch (error) {
        next = flow.throw(error);
        continue;
      }
      next = flow.next(result);
    }
  }

  *#execute(step: FlowStep<string>): Generator<Step, StepResults<string>[StepKind], Answer> {
    const { fault } = this.#behaviour;
    switch (step.kind) {
      case "look":
        if (fault === "reads first") this.#read = (yield readRow).word;
        return yield* this.#look();
      case "load":
        if (this.#behaviour.outage === "loads") throw AWAY;
        this.#read = fault === "reads first" ? this.#read! : (yield readRow).word;
        return { rows: new Map([[KEY, this.#read]]), keep: true, ttlSec: 0 };
      case "fill":
        for (const { cas, entry } of step.fills) yield* this.#fill(cas, entry);
        return;
      case "drop":
        for (const { cas } of step.items) {
          yield* send(0, requests.remove(KEY, cas), (isDone) => word(isDone));
        }
        return;
      // The order of steps keeps a cache right, not who may load: here everybody may.
      case "claim":
        return new Set(step.keys);
      case "unclaim":
      case "offer":
        return;
      case "commit":
        return yield* this.#commit();
      case "invalidate":
        if (fault === "invalidates first") return new Map();
        if (this.#failsNow("invalidations")) return new Map(step.keys.map((key) => [key, AWAY]));
        yield* this.#invalidate(step.keys);
        if (!this.#failsNow("replies to invalidations")) return new Map();
        return new Map(step.keys.map((key) => [key, AWAY]));
      case "takeToken":
        return yield* send(
          0,
          requests.takeToken(KEY, step.owner),
          (id) => word("token", Number(id)),
          true,
        );
      case "releaseToken":
        if (fault === "releases first") return true;
        yield* this.#release(step.id);
        if (this.#failsNow("replies to releases")) throw AWAY;
        return true;
      default:
        return;
    }
  }

  /** Whether a step fails that fails once. */
  #failsNow(outage: Outage): boolean {
    if (this.#behaviour.outage !== outage || this.#hasFailed) return false;
    this.#hasFailed = true;
    return true;
  }

  *#look(): Generator<Step, StepResults<string>["look"], Answer> {
    const versions: Record<string, string> = {};
    const borrows = this.#behaviour.fault === "borrows lease";
    const request = lookFor(KEY, LEASE_SEC, codec);
    const look: Request<KeyState<string>> = {
      ...request,
      read: (reply) => {
        const seen = atOnce(request.read(reply));
        if (borrows && seen.state === "held") return { state: "won", cas: reply.cas };
        // Its time to live is over.
        const isInGrace = seen.state === "value" && seen.entry.graceSec > 0;
        return isInGrace ? { ...seen, leftSec: seen.entry.graceSec } : seen;
      },
    };
    const seen = yield* send(0, look, (found) => {
      if (found.state === "value") return word(JSON.stringify(found.entry), Number(found.cas));
      return word(found.state, found.state === "won" ? Number(found.cas) : 0);
    });
    if (this.#behaviour.outage === "looks") {
      return { seen: new Map([[KEY, { state: "away" }]]), versions };
    }
    for (const tag of this.#tags) {
      if (this.#behaviour.outage === "tags") {
        return { seen: new Map([[KEY, seen]]), versions: undefined };
      }
      versions[tag] = yield* this.#version();
    }
    return { seen: new Map([[KEY, seen]]), versions };
  }

  *#version(): Generator<Step, string, Answer> {
    return yield* send(TAG_CACHE, requests.version(KEY), (id) => word("version", Number(id)));
  }

  *#fill(
    cas: string,
    entry: Parameters<typeof encodeEntry<string>>[1],
  ): Generator<Step, void, Answer> {
    const { fault } = this.#behaviour;
    const versions = fault === "notes tag late"
      ? { [TAG]: yield* this.#version() }
      : entry.versions;
    const encoded = atOnce(encodeEntry(codec.encode, { ...entry, versions }));
    const condition = fault === "fills by set" ? {} : { cas };
    const store = requests.store(KEY, encoded, 0, condition);
    const stored = yield* send(0, store, (result) => word(result));
    if (fault !== "repeats fill" || stored === "stored") return;
    const { seen } = yield* this.#look();
    const again = seen.get(KEY)!;
    if (again.state !== "won") return;
    yield* send(0, requests.store(KEY, encoded, 0, { cas: again.cas }), (result) => word(result));
  }

  *#commit(): Generator<Step, undefined, Answer> {
    const { fault, isCommitLate } = this.#behaviour;
    if (fault === "invalidates first") yield* this.#invalidate([KEY]);
    if (isCommitLate) throw new Error("no reply to the commit");
    yield commit;
    return undefined;
  }

  *#invalidate(keys: readonly string[]): Generator<Step, void, Answer> {
    for (const key of keys) {
      const cache = key === TAG ? TAG_CACHE : 0;
      yield* send(cache, requests.invalidate(KEY), (isDone) => word(isDone), true);
    }
  }

  *#release(id: string): Generator<Step, boolean, Answer> {
    return yield* send(0, requests.releaseToken(KEY, id), (wasOut) => word(wasOut), true);
  }

  /** A faulty writer: takes the token and releases it, then commits. */
  *releaseFirst(owner: string): Actor {
    const id = yield* send(
      0,
      requests.takeToken(KEY, owner),
      (id) => word("token", Number(id)),
      true,
    );
    yield* this.#release(id!);
    yield commit;
  }
}

/** `getOrLoad`. */
export const loader = (fault?: Fault, settings: Partial<LoadSettings> = {}) => (): Actor => {
  const player = new Player({ fault }, settings.tags ?? []);
  return player.play(loadFlow([KEY], { ...SETTINGS, ...settings }));
};

/** `getOrLoad` of a client that loads anew whatever it finds. */
export const refresher = (fault?: Fault): () => Actor => loader(fault, { refreshSec: Infinity });

/** `getOrLoad` of values that are all in their grace. */
export const graceLoader = (fault?: Fault): () => Actor => loader(fault, { graceSec: GRACE_SEC });

/** `getOrLoad` with a tag. */
export const tagLoader = (fault?: Fault): () => Actor => loader(fault, { tags: [TAG] });

/** `getOrLoad` in an outage. */
export const failingLoader =
  (outage: Outage, settings: Partial<LoadSettings> = {}) => (): Actor => {
    const player = new Player({ outage }, settings.tags ?? []);
    return player.play(loadFlow([KEY], { ...SETTINGS, ...settings }));
  };

/** `put` in the form of leases. @param key The tag's, or the row's. */
export const putter = (fault?: Fault, key: string = KEY) => (): Actor =>
  new Player({ fault }, []).play(putWithLeases([key], 0));

/** `put` in the form of leases or of tokens, whose first attempt to end fails. @param limitMs For further ones. */
export const failingPutter =
  (outage: Outage, limitMs: number = LIMIT_MS) => (name: string): Actor =>
    new Player({ outage }, []).play(
      outage === "replies to releases"
        ? putWithTokens([KEY], name, limitMs, () => true)
        : putWithLeases([KEY], limitMs),
    );

/** `put` that invalidates the tag. */
export const tagPutter = putter(undefined, TAG);

/** `put` in the form of tokens. */
export const tokenPutter = (fault?: Fault) =>
  function* (name: string): Actor {
    const player = new Player({ fault }, []);
    if (fault === "releases first") return yield* player.releaseFirst(name);
    yield* player.play(putWithTokens([KEY], name, 0, () => true));
    if (fault === "commits again") yield commit;
  };

/** `put` in the form of tokens whose commit takes effect although it failed. @param isRolledBack What it believes. */
export const latePutter = (isRolledBack: boolean) =>
  function* (name: string): Actor {
    const player = new Player({ isCommitLate: true }, []);
    const flow = putWithTokens([KEY], name, 0, () => isRolledBack);
    try {
      yield* player.play(flow);
    } catch (error) {
      if (!(error instanceof CommitError)) throw error;
      yield commit;
    }
  };

/** Whether a reader of the tag is served the row's value. @param ask Sends a request to a cache. */
export function isServed(ask: (cache: number, request: string) => string): boolean {
  const [, version] = / t=(\d+)\r\n$/.exec(ask(0, `mg ${KEY} v\r\n`)) ?? [];
  const [, current] = /^HD c(\d+)/.exec(ask(TAG_CACHE, `mg ${KEY} c\r\n`)) ?? [];
  return version !== undefined && version === current;
}
