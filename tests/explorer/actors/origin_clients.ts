import type { RowFlow } from "../../../lib/rows/flows/steps.ts";
import type { Flows } from "../../../lib/rows/flows/flows.ts";
import { RowWrite, type WriteReply } from "../../../lib/rows/flows/row_write.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import { KEY } from "../key_record.ts";
import {
  type Actor,
  AGAIN,
  type Answer,
  type Ask,
  ask,
  type Call,
  firstWord,
  INVALIDATION_SEC,
  LEASE_SEC,
  type MakeActor,
  readRow,
} from "../steps.ts";

// Clients of an origin: those that fill caches themselves, and those that only know the origin.

type Calling = RowFlow<Answer>;

const edit = (row: { version: number } | null): { flags: number; data: Uint8Array } => ({
  flags: 0,
  data: latin1Bytes(String(row!.version + 1)),
});

/** `uget k`: `C` or `N`, and the version. */
function uget(origin: number): Call {
  return {
    kind: "call",
    origin,
    note: "uget",
    isRead: true,
    *call(flows): Calling {
      const [read] = yield* flows.uget([KEY]);
      return { word: `${read!.cacheable ? "C" : "N"}${read!.version}`, id: 0 };
    },
  };
}

/** `token get k`; with a tag a lost reply can be asked for again. */
export function tokenGet(origin: number, owner: string): Call {
  return {
    kind: "call",
    origin,
    note: "token get",
    isRepeatable: owner !== "",
    call: ({ states }) => ({ word: "token", id: states.get(KEY, owner) }),
  };
}

export function tokenRelease(id: number, origin: number): Call {
  return {
    kind: "call",
    origin,
    note: "token release",
    isRepeatable: true,
    call: ({ states }) => ({ word: states.release(KEY, id), id: 0 }),
  };
}

/** Revokes all tokens of the key. */
const revoke: Call = {
  kind: "call",
  origin: 0,
  note: "token revoke",
  call: ({ states }) => {
    const { revoked, busy } = states.revoke(KEY);
    return { word: `${revoked} revoked, ${busy} busy`, id: 0 };
  },
};

function putAnswer(id: number, reply: WriteReply): Answer {
  return { word: reply.kind, id };
}

/** @param tokenId 0: one of its own. */
function* write(flows: Flows, tokenId: number): RowFlow<WriteReply> {
  const [reply] = yield* flows.write([new RowWrite({ key: KEY, edit, writerTokenId: tokenId })]);
  return reply!;
}

export function uput(id: number, origin: number): Call {
  return {
    kind: "call",
    origin,
    note: "uput",
    isRepeatable: true,
    *call(flows): Calling {
      return putAnswer(id, yield* write(flows, id));
    },
  };
}

function resolve(id: number, origin: number): Call {
  return {
    kind: "call",
    origin,
    note: "token resolve",
    isRepeatable: true,
    *call(flows): Calling {
      return putAnswer(id, yield* flows.resolve(KEY, id));
    },
  };
}

/** `get`, from the database. */
function get(origin: number): Call {
  return {
    kind: "call",
    origin,
    note: "get",
    isLinear: true,
    *call(flows): Calling {
      const [read] = yield* flows.read([KEY]);
      return { word: `${read!.version}`, id: 0 };
    },
  };
}

/** `set`: the whole flow of a writer. */
function set(origin: number): Call {
  return {
    kind: "call",
    origin,
    note: "set",
    *call(flows): Calling {
      return putAnswer(0, yield* write(flows, 0));
    },
  };
}

const atCache = (step: Ask, cache: number): Ask => ({ ...step, cache });

function getss(cache: number): Ask {
  const read = (reply: string): Answer => {
    const [, flags, id, data] = /^VALUE k (\d+) \d+ (\d+)\r\n(.*)\r\n/.exec(reply)!;
    const isOwn = flags === "13107" && data === "0";
    return isOwn ? { word: "lease", id: Number(id) } : { word: "no lease", id: 0 };
  };
  return atCache(ask(`getss ${LEASE_SEC} k`, read), cache);
}

function fill({ word }: Answer, leaseId: number, cache: number): Ask {
  const version = word.slice(1);
  const isCacheable = word.startsWith("C");
  const command = isCacheable
    ? `cas k 0 0 1 ${leaseId}\r\n${version}`
    : `cas k 0 -1 0 ${leaseId}\r\n`;
  return atCache(ask(command, firstWord), cache);
}

// --- readers ---------------------------------------------------------------------------------------

/** The rules: lease, read through the origin, fill or give back. */
export const reader = (cache = 0, origin = 0): MakeActor =>
  function* (): Actor {
    const got = yield getss(cache);
    if (got.word !== "lease") return;
    const read = yield uget(origin);
    if (read.word === "error") return;
    yield fill(read, got.id, cache);
  };

/** Breaks a rule: when its fill fails it takes another lease, and fills with what it has. */
export function* reusingReader(): Actor {
  let got = yield getss(0);
  if (got.word !== "lease") return;
  const read = yield uget(0);
  if (!read.word.startsWith("C")) return;
  const filled = yield fill(read, got.id, 0);
  if (filled.word === "STORED") return;
  got = yield getss(0);
  if (got.word === "lease") yield fill(read, got.id, 0);
}

/** Breaks a rule: it reads the database without the origin. */
export function* bypassingReader(): Actor {
  const got = yield getss(0);
  if (got.word !== "lease") return;
  const row = yield readRow;
  yield fill({ word: `C${row.word}`, id: 0 }, got.id, 0);
}

/** Only knows the origin. */
export const originReader = (origin = 0): MakeActor =>
  function* (): Actor {
    yield get(origin);
  };

// --- writers ---------------------------------------------------------------------------------------

export interface WriterWays {
  readonly origin?: number;
  /** The caches in which it deletes; left out: the first. */
  readonly caches?: readonly number[];
  /** How it deletes; left out: by `delete`. */
  readonly deletes?: "delete" | "deletess" | "set";
  /** Starts again when its token has been revoked, once. */
  readonly startsAgain?: boolean;
  /** The order of its steps: token, delete, put. */
  readonly order?: "tdp" | "dtp" | "tpd";
  /** Gives a tag. */
  readonly tag?: boolean;
}

const DELETIONS = {
  delete: "delete k",
  deletess: `deletess ${INVALIDATION_SEC} k`,
  /** An item that has already expired: it leaves no lease. */
  set: "set k 0 -1 0\r\n",
} as const;

function* invalidate(caches: readonly number[], deletion: string): Generator<Ask, void, Answer> {
  for (const cache of caches) yield { ...atCache(ask(deletion), cache), isRepeatable: true };
}

/** Yields a step until it comes to something. */
function* untilDone(step: Call): Generator<Call, Answer, Answer> {
  for (;;) {
    const answer = yield step;
    if (answer !== AGAIN) return answer;
  }
}

/** The rules: token, delete in every cache, put; and what the answers to a put ask for. */
export const writer = (ways: WriterWays = {}): MakeActor => {
  const { origin = 0, caches = [0], deletes = "delete", startsAgain = false, order = "tdp", tag } =
    ways;
  return function* (name): Actor {
    for (let attempt = 0; attempt < 2; attempt++) {
      let id = 0;
      let word = "";
      for (const letter of order) {
        switch (letter) {
          case "t":
            ({ id } = yield tokenGet(origin, tag ? name : ""));
            break;
          case "d":
            yield* invalidate(caches, DELETIONS[deletes]);
            break;
          case "p":
            ({ word } = yield* untilDone(patient(uput(id, origin))));
        }
      }
      for (let asked = 0; word === "unknown" && asked < 2; asked++) {
        ({ word } = yield* untilDone(patient(resolve(id, origin))));
      }
      if (word === "failed") yield tokenRelease(id, origin);
      if (word !== "revoked" || !startsAgain) return;
    }
  };
};

/** Asks again when the token is busy: an earlier put of the same client runs. */
function patient(step: Call): Call {
  return {
    ...step,
    *call(flows: Flows): Calling {
      const answer = yield* step.call(flows) as Calling;
      return answer.word === "busy" ? AGAIN : answer;
    },
  };
}

/** Only knows the origin, which deletes in no cache of a client. */
export const originWriter = (origin = 0): MakeActor =>
  function* (): Actor {
    yield set(origin);
  };

export function* revoker(): Actor {
  yield revoke;
}
