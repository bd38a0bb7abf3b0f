// deno-lint-ignore-file camelcase
import { BINARY_COMMANDS, Part } from "../../../protocol/binary/table.ts";
import { COMMANDS } from "../../../protocol/text/table.ts";
import { packetText } from "../sessions/binary_text.ts";

/** One read of the native transport. */
const PACKET_BYTES = 16 * 1024;
/** A key that `PRELOAD_KEY` has stored. */
const KEY = "key:00000001";
const VALUE = "v".repeat(32);

/** Returns the key of item `index`. */
export function itemKey(index: number): string {
  return `key:${String(index).padStart(8, "0")}`;
}

/** The requests of a text command that cost most. */
const TEXT: Readonly<Record<string, readonly string[]>> = {
  get: [`get ${KEY}`, `get ${[...Array(80).keys()].map(itemKey).join(" ")}`],
  gets: [`gets ${KEY}`],
  set: [`set ${KEY} 0 0 32\r\n${VALUE}`],
  add: [`add ${KEY} 0 0 32\r\n${VALUE}`],
  cas: [`cas ${KEY} 0 0 32 1\r\n${VALUE}`],
  delete: ["delete nope"],
  incr: ["incr nope 1"],
  decr: ["decr nope 1"],
  touch: [`touch ${KEY} 0`],
  gat: [`gat 0 ${KEY}`],
  gats: [`gats 0 ${KEY}`],
  replace: [`replace ${KEY} 0 0 32\r\n${VALUE}`],
  append: ["append nope 0 0 1\r\nx"],
  prepend: ["prepend nope 0 0 1\r\nx"],
  getss: ["getss 10 nope"],
  deletess: ["deletess 10 nope"],
  "lease-get": ["lease-get nope"],
  "lease-set": ["lease-set nope 1 0 0 1\r\nx"],
  lease: ["lease list", "lease list zzz"],
  token: [
    ...["token get nope", "token get hot owner", "token release nope 1", "token list"],
    ...["token list zzz", "token drop hot unsafe", "token drop_all unsafe"],
  ],
  follow: ["follow wait now 0"],
  node: ["node poll - 0 0\r\n"],
  quarantine: ["quarantine off"],
  flush_all: ["flush_all 1000000"],
  version: ["version"],
  verbosity: ["verbosity 0"],
  mg: [`mg ${KEY} v t s c f`],
  ms: [`ms ${KEY} 32\r\n${VALUE}`],
  md: ["md nope"],
  ma: ["ma nope"],
  me: [`me ${KEY}`],
  mn: ["mn"],
  quit: ["quit"],
  stats: [
    ...["stats", "stats items", "stats slabs", "stats sizes", "stats classes", "stats conns"],
    ...[
      "stats settings",
      "stats ops",
      "stats threads",
      "stats latency",
      "stats reset",
      "stats detail dump",
    ],
    ...["stats hotkeys", "stats cachedump 1 0", "stats cachedump 3 0", "stats cachedump 4 100"],
  ],
  refresh_certs: ["refresh_certs"],
  cache_memlimit: ["cache_memlimit 1024"],
  lock: ["lock nope", "lock list", "lock list zzz"],
  unlock: ["unlock nope"],
  unlock_all: ["unlock_all"],
  keys: ["keys", "keys nope"],
  uget: ["uget nope"],
  uput: ["uput nope 0 1 1\r\n1"],
  udelete: ["udelete nope 1"],
  caches: ["caches"],
  nodes: ["nodes"],
  uread: ["uread k"],
  shutdown: ["shutdown"],
  watch: ["watch"],
  debugtime: ["debugtime 0"],
  slabs: ["slabs reassign -1 22", "slabs reassign 22 0"],
  lru: ["lru tune 10 25 0.1 2.0"],
  lru_crawler: ["lru_crawler metadump hash", "lru_crawler mgdump all", "lru_crawler crawl all"],
};

/** Keys of a binary Stat. */
const STAT_KEYS = ["", "sizes", "items", "slabs", "reset", "detail dump", "settings", "classes"];

/** As many copies of one request as fit one read. */
export interface CostlyPacket {
  readonly name: string;
  readonly isBinary: boolean;
  /** One request, `requests` times, in characters below 256. */
  readonly text: string;
  readonly requests: number;
}

function packetOf(name: string, request: string, isBinary: boolean): CostlyPacket {
  const count = Math.max(1, Math.floor(PACKET_BYTES / request.length));
  return { name, isBinary, text: request.repeat(count), requests: count };
}

/** A packet for every command of both tables. Throws for a command that has no request here. */
export function costlyPackets(): CostlyPacket[] {
  const text = COMMANDS.flatMap(({ name }) => {
    const requests = TEXT[name];
    if (requests === undefined) throw new Error(`No costly request for the command ${name}`);
    return requests.map((request) => {
      const [line] = request.split("\r\n") as [string];
      return packetOf(line.length > 40 ? `${line.slice(0, 36)}…` : line, `${request}\r\n`, false);
    });
  });
  const binary = BINARY_COMMANDS.flatMap(({ name, opcode, extras, key, value }) => {
    const keys = name === "Stat" ? STAT_KEYS : [key === Part.NONE ? "" : KEY];
    return keys.map((word) => {
      const request = packetText({
        opcode,
        key: word,
        extras: "\0".repeat(Math.max(...extras)),
        value: value === Part.SOME ? "1" : "",
      });
      return packetOf(`binary ${name}${name === "Stat" && word ? ` ${word}` : ""}`, request, true);
    });
  });
  return [...text, ...binary];
}
