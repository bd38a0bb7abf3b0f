import type { ByteRegion } from "../../store/base/bytes.ts";
import { StoreMode } from "../../store/operation.ts";
import type { Conversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import * as admin from "./admin.ts";
import { arithmetic } from "./arithmetic.ts";
import { keys } from "./keys.ts";
import { deletess, getss, lease, leaseGet, leaseSet } from "./lease.ts";
import { lock, unlock, unlockAll } from "./lock.ts";
import { metaGet, metaNoop } from "../meta/get.ts";
import { metaArithmetic } from "../meta/arithmetic.ts";
import { metaDebug } from "../meta/debug.ts";
import { metaDelete } from "../meta/delete.ts";
import { metaSet } from "../meta/set.ts";
import { getAndTouch, getKeys, MultigetKind } from "./read.ts";
import { stats } from "./stats.ts";
import * as tuning from "./tuning.ts";
import { quarantine, token } from "./token.ts";
import { watch } from "./watch.ts";
import { remove, store, touch } from "./write.ts";

/** Executes the request that `conversation.thread.request` describes. */
export type Handler = (conversation: Conversation) => Flow;

/** A command of the text protocols. */
export interface CommandRow {
  /** Of the row in the table, for `stats ops`. */
  readonly index: number;
  readonly name: string;
  /** Lines with fewer words, the command's included, are refused as badly formatted. */
  readonly wordsMin: number;
  /** Whether a last word `noreply` silences it. */
  readonly noreply: boolean;
  readonly handler: Handler;
}

type Row = readonly [
  name: string,
  wordsMin: number,
  noreply: boolean,
  handler: Handler,
];

// deno-fmt-ignore
const ROWS: readonly Row[] = [
  // name            words  noreply handler
  ["get",            2,     false, (c) => getKeys(c, MultigetKind.GET)],
  ["gets",           2,     false, (c) => getKeys(c, MultigetKind.GETS)],
  ["set",            5,     true,  (c) => store(c, StoreMode.SET)],
  ["add",            5,     true,  (c) => store(c, StoreMode.ADD)],
  ["cas",            5,     true,  (c) => store(c, StoreMode.CAS)],
  ["delete",         2,     true,  remove],
  ["incr",           3,     true,  (c) => arithmetic(c, true)],
  ["decr",           3,     true,  (c) => arithmetic(c, false)],
  ["touch",          3,     true,  touch],
  ["gat",            3,     false, (c) => getAndTouch(c, MultigetKind.GAT)],
  ["gats",           3,     false, (c) => getAndTouch(c, MultigetKind.GATS)],
  ["replace",        5,     true,  (c) => store(c, StoreMode.REPLACE)],
  ["append",         5,     true,  (c) => store(c, StoreMode.APPEND)],
  ["prepend",        5,     true,  (c) => store(c, StoreMode.PREPEND)],
  ["getss",          1,     false, getss],
  ["deletess",       1,     true,  deletess],
  ["lease-get",      2,     false, leaseGet],
  ["lease-set",      6,     true,  leaseSet],
  ["lease",          1,     false, lease],
  ["token",          2,     true,  token],
  ["quarantine",     1,     false, quarantine],
  ["flush_all",      1,     true,  admin.flushAll],
  ["version",        1,     false, admin.version],
  ["verbosity",      1,     true,  admin.verbosity],
  ["mg",             2,     false, metaGet],
  ["ms",             3,     false, metaSet],
  ["md",             2,     false, metaDelete],
  ["ma",             2,     false, metaArithmetic],
  ["me",             2,     false, metaDebug],
  ["mn",             1,     false, metaNoop],
  ["quit",           1,     false, () => Flow.CLOSE],
  ["stats",          1,     false, stats],
  ["cache_memlimit", 1,     true,  admin.memoryLimit],
  ["lock",           1,     false, lock],
  ["unlock",         1,     false, unlock],
  ["unlock_all",     1,     false, unlockAll],
  ["keys",           1,     false, keys],
  ["shutdown",       1,     true,  admin.shutdown],
  ["watch",          1,     false, watch],
  ["slabs",          1,     true,  tuning.slabs],
  ["lru",            1,     true,  tuning.lru],
  ["lru_crawler",    1,     true,  tuning.crawler],
];

/** In the order of the table. */
export const COMMANDS: readonly CommandRow[] = ROWS.map(
  ([name, wordsMin, noreply, handler], index) => ({
    index,
    name,
    wordsMin,
    noreply,
    handler,
  }),
);

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
