import type { ByteRegion } from "../../store/base/bytes.ts";
import { StoreMode } from "../../store/operation.ts";
import { Access, type AccessRule } from "../auth/access.ts";
import type { Conversation, RequestConversation } from "../conversation.ts";
import { REFUSAL } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { readValueLength, swallowBlock } from "../store_block.ts";
import type { MetaRequest } from "../meta/request.ts";
import * as admin from "./admin.ts";
import { answer } from "./answer.ts";
import { keys } from "./keys.ts";
import { deletess, getss, lease, leaseGet, leaseSet } from "./lease.ts";
import { lock, lockAccess, unlock, unlockAll } from "./lock.ts";
import { metaGet, metaGetAccess, metaNoop } from "../meta/get.ts";
import { metaArithmetic } from "../meta/arithmetic.ts";
import { metaDebug } from "../meta/debug.ts";
import { metaDelete } from "../meta/delete.ts";
import { metaSet } from "../meta/set.ts";
import { getAndTouch, getKeys, MultigetKind } from "./read.ts";
import { stats, statsAccess } from "./stats.ts";
import * as tuning from "./tuning.ts";
import { caches, node, nodesAccess, rowCommand, uput } from "./row_command.ts";
import { quarantine, token, tokenAccess } from "./token.ts";
import { watch } from "./watch.ts";
import { arithmetic, remove, store, touch } from "./write.ts";

/** Executes the request that `conversation.thread.request` describes. All but reads take a RequestConversation. */
export type Handler = (conversation: Conversation, meta: MetaRequest) => Flow;

/** A command of the text protocols. */
export interface CommandRow {
  /** Of the row in the table, for `stats ops`. */
  readonly index: number;
  readonly name: string;
  /** Lines with fewer words, the command's included, are refused as badly formatted. */
  readonly wordsMin: number;
  /** Whether a last word `noreply` silences it. */
  readonly noreply: boolean;
  /** Position of the word with the length of the data block that follows the line; 0: none follows. */
  readonly lengthWord: number;
  /** The access that a peer needs. */
  readonly access: AccessRule<RequestConversation>;
  /** Whether it may be executed ahead of its turn, while the connection waits for rows: it is but one operation. */
  readonly isAhead: boolean;
  readonly handler: Handler;
}

type Row = readonly [
  name: string,
  wordsMin: number,
  noreply: boolean,
  lengthWord: number,
  access: AccessRule<RequestConversation>,
  handler: Handler,
];

const { READ, WRITE, NODE, ADMIN } = Access;

// deno-fmt-ignore
const ROWS: readonly Row[] = [
  // name           words  noreply  length  access         handler
  ["get",           2,     false,   0,      READ,          (c) => getKeys(c, MultigetKind.GET)],
  ["gets",          2,     false,   0,      READ,          (c) => getKeys(c, MultigetKind.GETS)],
  ["set",           5,     true,    4,      WRITE,         (c) => store(c, StoreMode.SET)],
  ["add",           5,     true,    4,      WRITE,         (c) => store(c, StoreMode.ADD)],
  ["cas",           5,     true,    4,      WRITE,         (c) => store(c, StoreMode.CAS)],
  ["delete",        2,     true,    0,      WRITE,         remove],
  ["incr",          3,     true,    0,      WRITE,         (c) => arithmetic(c, true)],
  ["decr",          3,     true,    0,      WRITE,         (c) => arithmetic(c, false)],
  ["touch",         3,     true,    0,      WRITE,         touch],
  ["gat",           3,     false,   0,      WRITE,         (c) => getAndTouch(c, MultigetKind.GAT)],
  ["gats",          3,     false,   0,      WRITE,         (c) => getAndTouch(c, MultigetKind.GATS)],
  ["replace",       5,     true,    4,      WRITE,         (c) => store(c, StoreMode.REPLACE)],
  ["append",        5,     true,    4,      WRITE,         (c) => store(c, StoreMode.APPEND)],
  ["prepend",       5,     true,    4,      WRITE,         (c) => store(c, StoreMode.PREPEND)],
  ["getss",         1,     false,   0,      WRITE,         getss],
  ["deletess",      1,     true,    0,      WRITE,         deletess],
  ["lease-get",     2,     false,   0,      WRITE,         leaseGet],
  ["lease-set",     6,     true,    5,      WRITE,         leaseSet],
  ["lease",         1,     false,   0,      ADMIN,         lease],
  ["token",         2,     true,    0,      tokenAccess,   token],
  ["uget",          2,     false,   0,      READ,          (c) => rowCommand(c)],
  ["uread",         2,     false,   0,      READ,          (c) => rowCommand(c)],
  ["uput",          5,     true,    3,      WRITE,         uput],
  ["udelete",       3,     true,    0,      WRITE,         (c) => rowCommand(c)],
  ["caches",        1,     false,   0,      READ,          caches],
  ["nodes",         1,     false,   0,      nodesAccess,   (c) => rowCommand(c)],
  ["follow",        4,     false,   0,      READ,          (c) => rowCommand(c)],
  ["node",          5,     false,   4,      NODE,          node],
  ["quarantine",    1,     false,   0,      ADMIN,         quarantine],
  ["flush_all",     1,     true,    0,      ADMIN,         admin.flushAll],
  ["version",       1,     false,   0,      READ,          admin.version],
  ["verbosity",     1,     true,    0,      ADMIN,         admin.verbosity],
  ["refresh_certs", 1,     true,    0,      ADMIN,         admin.refreshCertificates],
  ["mg",            2,     false,   0,      metaGetAccess, metaGet],
  ["ms",            3,     false,   2,      WRITE,         metaSet],
  ["md",            2,     false,   0,      WRITE,         metaDelete],
  ["ma",            2,     false,   0,      WRITE,         metaArithmetic],
  ["me",            2,     false,   0,      READ,          metaDebug],
  ["mn",            1,     false,   0,      READ,          metaNoop],
  ["quit",          1,     false,   0,      READ,          () => Flow.CLOSE],
  ["stats",         1,     false,   0,      statsAccess,   stats],
  ["cache_memlimit",1,     true,    0,      ADMIN,         admin.memoryLimit],
  ["lock",          1,     false,   0,      lockAccess,    lock],
  ["unlock",        1,     false,   0,      WRITE,         unlock],
  ["unlock_all",    1,     false,   0,      WRITE,         unlockAll],
  ["keys",          1,     false,   0,      ADMIN,         keys],
  ["shutdown",      1,     true,    0,      ADMIN,         admin.shutdown],
  ["debugtime",     1,     false,   0,      ADMIN,         admin.debugTime],
  ["watch",         1,     false,   0,      ADMIN,         watch],
  ["slabs",         1,     true,    0,      ADMIN,         tuning.slabs],
  ["lru",           1,     true,    0,      ADMIN,         tuning.lru],
  ["lru_crawler",   1,     true,    0,      ADMIN,         tuning.crawler],
];

const AHEAD = new Set([
  ...["set", "add", "cas", "delete", "incr", "decr", "touch", "replace", "append", "prepend"],
  ...["mg", "ms", "md", "ma"],
]);

/** In the order of the table. */
export const COMMANDS: readonly CommandRow[] = ROWS.map(
  ([name, wordsMin, noreply, lengthWord, access, handler], index) => ({
    index,
    name,
    wordsMin,
    noreply,
    lengthWord,
    access,
    isAhead: AHEAD.has(name),
    handler,
  }),
);

/** Returns the commands as a peer with this access has them: others answer that they are not permitted. */
export function commandsFor(access: Access): readonly CommandRow[] {
  if (access === ADMIN) return COMMANDS;
  return COMMANDS.map((row) => {
    const { access: rule, lengthWord, handler } = row;
    const needed = typeof rule === "number" ? () => rule : rule;
    const permitted: Handler = (conversation, meta) =>
      needed(conversation) <= access
        ? handler(conversation, meta)
        : refuseAccess(conversation, needed(conversation), lengthWord);
    return { ...row, handler: permitted };
  });
}

/** The reply by the access that a command needs. */
const REFUSED: Readonly<Record<Access, Uint8Array>> = {
  [Access.NONE]: REFUSAL.UNAUTHENTICATED,
  [Access.READ]: REFUSAL.UNAUTHENTICATED,
  [Access.WRITE]: REFUSAL.NEEDS_WRITE,
  [Access.NODE]: REFUSAL.NEEDS_NODE,
  [Access.ADMIN]: REFUSAL.NEEDS_ADMIN,
};

/**
 * Refuses a command that the peer's user may not give, and skips its data block.
 *
 * @param needed The access that the command needs.
 * @param lengthWord As `CommandRow` has it.
 */
function refuseAccess(conversation: RequestConversation, needed: Access, lengthWord: number): Flow {
  if (lengthWord > 0 && !readValueLength(conversation, lengthWord)) return Flow.DONE;
  answer(conversation, REFUSED[needed]);
  return lengthWord > 0 ? swallowBlock(conversation) : Flow.DONE;
}

interface IndexedRow {
  readonly row: CommandRow;
  readonly word: Uint8Array;
}

/** Finds a command by its word. */
export class CommandIndex {
  /** By the word's length. */
  readonly #rows: IndexedRow[][] = [];

  constructor(rows: readonly CommandRow[]) {
    const encoder = new TextEncoder();
    for (const row of rows) {
      const word = encoder.encode(row.name);
      while (this.#rows.length <= word.length) this.#rows.push([]);
      this.#rows[word.length]!.push({ row, word });
    }
  }

  find(input: ByteRegion, offset: number, length: number): CommandRow | null {
    if (length >= this.#rows.length) return null;
    const rows = this.#rows[length]!;
    const { bytes } = input;
    for (let index = 0; index < rows.length; index++) {
      const { row, word } = rows[index]!;
      let at = 0;
      while (at < length && bytes[offset + at] === word[at]) at++;
      if (at === length) return row;
    }
    return null;
  }
}
