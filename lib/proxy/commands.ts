import { Access, type AccessRule } from "../../protocol/auth/access.ts";
import type { Change, Edit, Row } from "../rows/databases/backend.ts";
import { Arithmetic, extending, readU64 } from "../rows/databases/edits.ts";
import { metaArithmetic, metaDelete, metaGet, metaSet } from "./meta_commands.ts";
import type { PutReply } from "./flows.ts";
import type { Proxy } from "./proxy.ts";
import { REPLY } from "./replies.ts";
import {
  answerUnfinished,
  idOf,
  keyOf,
  numberOf,
  type ProxyHandler,
  type ProxyRequest,
  type ProxySession,
  Refusal,
  requireNoExpiry,
  UINT32_MAX,
} from "./request.ts";
import { proxyStats } from "./statistics/statistics.ts";
import { TokenLimitError } from "../rows/flows/token_states.ts";

/** One command. */
export interface ProxyCommand {
  readonly name: string;
  /** Words behind the command, at least and at most, `noreply` aside. */
  readonly wordsMin: number;
  readonly wordsMax: number;
  /** Position of the word that gives the length of a data block; -1: no data block follows. */
  readonly lengthWord: number;
  /** Whether a last word `noreply` silences it. */
  readonly noreply: boolean;
  /** What a client must be allowed to do, given the words behind the command. */
  readonly access: AccessRule<readonly string[]>;
  readonly handler: ProxyHandler;
}

/** Keys of one request that are read at the same time. */
const READS_AT_ONCE = 8;
const OWNER = /^[\x21-\x7e]{1,64}$/;
const FOREVER = Infinity;

type CommandRow = readonly [
  name: string,
  wordsMin: number,
  wordsMax: number,
  lengthWord: number,
  noreply: boolean,
  access: AccessRule<readonly string[]>,
  handler: ProxyHandler,
];

const { READ, WRITE } = Access;

// deno-fmt-ignore
const ROWS: readonly CommandRow[] = [
  // name       words       length noreply access       handler
  ["uget",      1, FOREVER, -1,    false,  READ,        uget],
  ["uput",      4, 4,        2,    true,   WRITE,       uput],
  ["udelete",   2, 2,       -1,    true,   WRITE,       udelete],
  ["token",     1, 3,       -1,    true,   tokenAccess, token],
  ["caches",    0, 0,       -1,    false,  READ,        caches],
  ["get",       1, FOREVER, -1,    false,  READ,        get],
  ["gets",      1, FOREVER, -1,    false,  READ,        gets],
  ["set",       4, 4,        3,    true,   WRITE,       (s, r) => store(s, r, null)],
  ["add",       4, 4,        3,    true,   WRITE,       (s, r) => store(s, r, (row) => row === null)],
  ["replace",   4, 4,        3,    true,   WRITE,       (s, r) => store(s, r, (row) => row !== null)],
  ["append",    4, 4,        3,    true,   WRITE,       (s, r) => extend(s, r, false)],
  ["prepend",   4, 4,        3,    true,   WRITE,       (s, r) => extend(s, r, true)],
  ["cas",       5, 5,        3,    true,   WRITE,       compareAndSet],
  ["delete",    1, 2,       -1,    true,   WRITE,       remove],
  ["incr",      2, 2,       -1,    true,   WRITE,       (s, r) => arithmetic(s, r, true)],
  ["decr",      2, 2,       -1,    true,   WRITE,       (s, r) => arithmetic(s, r, false)],
  ["touch",     2, 2,       -1,    true,   WRITE,       touch],
  ["mg",        1, FOREVER, -1,    false,  READ,        metaGet],
  ["ms",        2, FOREVER,  1,    false,  WRITE,       metaSet],
  ["md",        1, FOREVER, -1,    false,  WRITE,       metaDelete],
  ["ma",        1, FOREVER, -1,    false,  WRITE,       metaArithmetic],
  ["mn",        0, 0,       -1,    false,  READ,        (s) => s.line("MN")],
  ["version",   0, 0,       -1,    false,  READ,        (s) => s.line(`VERSION ${s.version}`)],
  ["stats",     0, 1,       -1,    false,  READ,        stats],
];

/** The commands by name. */
export const COMMANDS: ReadonlyMap<string, ProxyCommand> = new Map(
  ROWS.map(([name, wordsMin, wordsMax, lengthWord, noreply, access, handler]) => [
    name,
    { name, wordsMin, wordsMax, lengthWord, noreply, access, handler },
  ]),
);

/**
 * Reads keys, a few at the same time. Yields the results in the order of the keys, and sends the replies that the
 * caller appends.
 *
 * @throws The first error.
 */
async function* inOrder<Result>(
  session: ProxySession,
  keys: readonly string[],
  read: (key: string) => Promise<Result>,
): AsyncGenerator<readonly [key: string, result: Result]> {
  const started: Promise<Result>[] = [];
  const start = (key: string): void => {
    const result = read(key);
    // The loop below throws the error when it is this key's turn.
    result.catch(() => {});
    started.push(result);
  };
  for (const key of keys.slice(0, READS_AT_ONCE)) start(key);
  for (const [index, key] of keys.entries()) {
    const result = await started.shift()!;
    const next = keys[index + READS_AT_ONCE];
    if (next !== undefined) start(next);
    yield [key, result];
    await session.sendLong();
  }
}

// --- rows under update tokens --------------------------------------------------------------------

/** `uget [@<cache>] <key>+` */
async function uget(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const [first = ""] = words;
  const cache = first.startsWith("@") ? first.slice(1) : null;
  const keys = cache === null ? words : words.slice(1);
  if (keys.length === 0) throw new Refusal(REPLY.BAD_FORMAT);
  for (const key of keys) keyOf(key);
  const reads = inOrder(session, keys, (key) => {
    const isReadable = cache === null || session.proxy.caches.named(cache)?.state === "listed";
    return session.proxy.read(key, isReadable);
  });
  for await (const [key, { row, version, cacheable }] of reads) {
    const mark = cacheable ? "C" : "N";
    if (row === null) {
      session.line(`NONE ${key} ${version} ${mark}`);
      continue;
    }
    session.line(`VALUE ${key} ${row.flags} ${row.data.length} ${version} ${mark}`);
    session.block(row.data);
  }
  session.line(REPLY.END);
}

/** `uput <key> <flags> <bytes> <id> [noreply]` */
async function uput(session: ProxySession, { words, data }: ProxyRequest): Promise<void> {
  const [key = "", flagsWord = "", , idWord = ""] = words;
  const change: Change = { flags: numberOf(flagsWord, UINT32_MAX), data: data! };
  const reply = await session.proxy.put(keyOf(key), idOf(idWord), change);
  if (answerUnfinished(session, reply)) return;
  if (reply.kind === "committed") session.line(`${REPLY.STORED} ${reply.version}`);
}

/** `udelete <key> <id> [noreply]` */
async function udelete(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const [key = "", idWord = ""] = words;
  const reply = await session.proxy.put(keyOf(key), idOf(idWord), "delete");
  if (answerUnfinished(session, reply)) return;
  if (reply.kind === "committed") session.line(`${REPLY.DELETED} ${reply.version}`);
}

/** Writers get and release tokens; only administrators list, revoke and resolve them. */
function tokenAccess([subcommand]: readonly string[]): Access {
  return subcommand === "get" || subcommand === "release" ? Access.WRITE : Access.ADMIN;
}

/** `token get|release|revoke|resolve|list` */
async function token(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const { states } = session.proxy;
  const [subcommand, key = "", third] = words;
  if (subcommand === "list") {
    for (const { id, key, owner, state } of states.list(words[1])) {
      session.line(`TOKEN ${key} ${id} ${state} ${owner || "-"}`);
      await session.sendLong();
    }
    return session.line(REPLY.END);
  }
  if (words.length < 2) throw new Refusal(REPLY.ERROR);
  keyOf(key);
  switch (subcommand) {
    case "get":
      if (third !== undefined && !OWNER.test(third)) throw new Refusal(REPLY.BAD_OWNER);
      return session.line(`TOKEN ${takeToken(session.proxy, key, third ?? "")}`);
    case "release": {
      const released = states.release(key, idOf(third ?? ""));
      const line = { released: REPLY.OK, none: REPLY.NOT_FOUND, busy: REPLY.BUSY } as const;
      return session.line(line[released]);
    }
    case "revoke": {
      const { revoked, busy } = states.revoke(key, third === undefined ? undefined : idOf(third));
      return session.line(busy > 0 && revoked === 0 ? REPLY.BUSY : `${REPLY.OK} ${revoked}`);
    }
    case "resolve": {
      const reply = await session.proxy.resolve(key, idOf(third ?? ""));
      if (answerUnfinished(session, reply)) return;
      if (reply.kind === "committed") session.line(`${REPLY.STORED} ${reply.version}`);
      return;
    }
    default:
      throw new Refusal(REPLY.ERROR);
  }
}

function takeToken(proxy: Proxy, key: string, owner: string): number {
  try {
    return proxy.states.get(key, owner);
  } catch (error) {
    if (error instanceof TokenLimitError) throw new Refusal(REPLY.TOO_MANY_TOKENS);
    throw error;
  }
}

/** `caches`: the caches in which a writer must delete the key. */
function caches(session: ProxySession): void {
  const list = session.proxy.caches;
  for (const { name, state, weight } of list.members) {
    session.line(`CACHE ${name} ${state} ${weight}`);
  }
  session.line(`${REPLY.END} ${list.epoch}`);
}

// --- memcached's commands ------------------------------------------------------------------------

/** `get <key>+`: through the caches. */
async function get(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const keys = words.map(keyOf);
  for await (const [key, value] of inOrder(session, keys, (each) => session.proxy.get(each))) {
    if (value === null) continue;
    session.line(`VALUE ${key} ${value.flags} ${value.data.length}`);
    session.block(value.data);
  }
  session.line(REPLY.END);
}

/** `gets <key>+`: from the database, with the row's version as cas unique. */
async function gets(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const keys = words.map(keyOf);
  for await (const [key, { row }] of inOrder(session, keys, (each) => session.proxy.read(each))) {
    if (row === null) continue;
    session.line(`VALUE ${key} ${row.flags} ${row.data.length} ${row.version}`);
    session.block(row.data);
  }
  session.line(REPLY.END);
}

/** set, add and replace: `<key> <flags> 0 <bytes> [noreply]`. @param condition Null: none. */
async function store(
  session: ProxySession,
  { words, data }: ProxyRequest,
  condition: ((row: Row | null) => boolean) | null,
): Promise<void> {
  const [key = "", flagsWord = "", exptime = ""] = words;
  const change: Change = { flags: numberOf(flagsWord, UINT32_MAX), data: data! };
  requireNoExpiry(exptime);
  const edit: Edit = condition === null ? change : (row) => condition(row) ? change : null;
  const reply = await session.proxy.write(keyOf(key), edit);
  answerStore(session, reply, REPLY.NOT_STORED);
}

function answerStore(session: ProxySession, reply: PutReply, refused: string): void {
  if (answerUnfinished(session, reply)) return;
  session.line(reply.kind === "committed" ? REPLY.STORED : refused);
}

/** append and prepend; flags and exptime are those of the row. */
async function extend(
  session: ProxySession,
  { words, data }: ProxyRequest,
  before: boolean,
): Promise<void> {
  const edit = extending(data!, before);
  answerStore(session, await session.proxy.write(keyOf(words[0]!), edit), REPLY.NOT_STORED);
}

/** `cas <key> <flags> 0 <bytes> <version> [noreply]` */
async function compareAndSet(session: ProxySession, { words, data }: ProxyRequest): Promise<void> {
  const [key = "", flagsWord = "", exptime = "", , versionWord = ""] = words;
  const change: Change = { flags: numberOf(flagsWord, UINT32_MAX), data: data! };
  const version = idOf(versionWord);
  requireNoExpiry(exptime);
  const edit: Edit = (row) => row?.version === version ? change : null;
  const reply = await session.proxy.write(keyOf(key), edit);
  const refused = reply.kind === "refused" && reply.row === null ? REPLY.NOT_FOUND : REPLY.EXISTS;
  answerStore(session, reply, refused);
}

/** `delete <key> [0] [noreply]` */
async function remove(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  if (words.length === 2 && words[1] !== "0") throw new Refusal(REPLY.BAD_FORMAT);
  const edit: Edit = (row) => row === null ? null : "delete";
  const reply = await session.proxy.write(keyOf(words[0]!), edit);
  if (answerUnfinished(session, reply)) return;
  session.line(reply.kind === "committed" ? REPLY.DELETED : REPLY.NOT_FOUND);
}

/** `incr|decr <key> <delta> [noreply]` */
async function arithmetic(
  session: ProxySession,
  { words }: ProxyRequest,
  increment: boolean,
): Promise<void> {
  const [key = "", deltaWord = ""] = words;
  const delta = readU64(deltaWord);
  if (delta === null) throw new Refusal(REPLY.BAD_DELTA);
  const work = new Arithmetic(delta, increment);
  const reply = await session.proxy.write(keyOf(key), (row) => work.edit(row));
  if (answerUnfinished(session, reply)) return;
  if (reply.kind === "committed") return session.line(String(work.value));
  session.line(work.isNumeric ? REPLY.NOT_FOUND : REPLY.NOT_NUMERIC);
}

/** `touch <key> 0`: a row never expires, so there is nothing to change. */
async function touch(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const [key = "", exptime = ""] = words;
  requireNoExpiry(exptime);
  const { row } = await session.proxy.read(keyOf(key));
  session.line(row === null ? REPLY.NOT_FOUND : REPLY.TOUCHED);
}

function stats(session: ProxySession, { words }: ProxyRequest): void {
  if (words.length > 0) throw new Refusal(REPLY.ERROR);
  for (const [name, value] of proxyStats(session.proxy)) session.line(`STAT ${name} ${value}`);
  session.line(REPLY.END);
}
