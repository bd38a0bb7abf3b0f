import { readSources } from "../support/sources.ts";
import { FAULTS, type ItemRequest, type Request } from "./plan.ts";

/**
 * First words of replies, for each kind of request. `ERROR`: any error but an unknown outcome; `lost`: the connection
 * went before it.
 */
const REPLIES: Readonly<Record<Request["kind"], readonly string[]>> = {
  get: ["VALUE", "END", "ERROR", "lost"],
  gets: ["VALUE", "END", "ERROR", "lost"],
  getMany: ["VALUE", "END", "ERROR", "lost"],
  uget: ["VALUE", "NONE", "END", "ERROR", "lost"],
  set: ["STORED", "ERROR", "unknown", "lost"],
  add: ["STORED", "NOT_STORED", "ERROR", "unknown", "lost"],
  cas: ["STORED", "EXISTS", "NOT_FOUND", "ERROR", "unknown", "lost"],
  delete: ["DELETED", "NOT_FOUND", "ERROR", "unknown", "lost"],
  flush: ["OK", "ERROR", "lost"],
  uput: ["TOKEN", "STORED", "NOT_FOUND", "REVOKED", "BUSY", "ERROR", "unknown", "lost"],
  direct: ["OK", "ERROR", "lost"],
  view: ["VALUE", "END", "ERROR", "lost"],
  list: ["VALUE", "END", "ERROR", "lost"],
};

/** Ends of what applications ask for, by form and outcome of a `put`. */
const ITEMS: readonly string[] = [
  ...["load", "lock"].flatMap((kind) => [`${kind}: done`, `${kind}: error`]),
  ...(["leases", "tokens"] as const).flatMap((form) =>
    (["committed", "rolledBack", "lost"] as const).map((outcome) => putName(form, outcome))
  ),
  putName("tokens", "late"),
];

/** Files whose servers the simulator runs. */
const SIMULATED = /^lib\/(?:rows|journal)\//;
/** Events of files, which are not in it, and of values that are wrong. */
const OUTSIDE =
  /^(?:stale_|phantom_|log_unbounded|journal_unreadable|rows_(?:kept|removed|not_saved))/;

/** Name of a `put` in a list of what seeds have met. */
export function putName(form: ItemRequest["form"], outcome: ItemRequest["outcome"]): string {
  return `put under ${form}: ${outcome}`;
}

/** Name of a reply to a request. @param line The last line of the reply; null: there was none. */
export function replyName(kind: Request["kind"], line: string | null): string {
  if (line === null) return `${kind}: lost`;
  if (/outcome unknown/.test(line) && REPLIES[kind].includes("unknown")) return `${kind}: unknown`;
  return `${kind}: ${/ERROR/.test(line) ? "ERROR" : line.split(" ")[0]}`;
}

/** All that a seed can meet: faults, replies to clients, ends of applications' requests, events in logs. */
function everything(): string[] {
  const events = readSources().filter(({ path }) => SIMULATED.test(path)).flatMap(({ text }) =>
    [...text.matchAll(/\bevent: "(\w+)"/g)].map(([, event]) => event!)
  );
  return [
    ...FAULTS.map((kind) => `fault ${kind}`),
    ...Object.entries(REPLIES).flatMap(([kind, words]) =>
      words.map((word) => `reply to ${kind}: ${word}`)
    ),
    ...ITEMS.map((item) => `request ${item}`),
    ...[...new Set(events)].filter((event) => !OUTSIDE.test(event)).map((event) =>
      `event ${event}`
    ),
  ];
}

/** Returns what no seed has met. @param met Names of what seeds have met. */
export function missing(met: ReadonlySet<string>): string[] {
  return everything().filter((name) => !met.has(name));
}

/** Returns faults and replies that seeds have met although they are in no list. */
export function unlisted(met: ReadonlySet<string>): string[] {
  const listed = new Set(everything());
  return [...met].filter((name) => /^(?:fault|reply) /.test(name) && !listed.has(name));
}
