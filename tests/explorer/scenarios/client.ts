import * as flows from "../actors/client_flows.ts";
import { type RowFault, rowPutter } from "../actors/row_putters.ts";
import * as clients from "../actors/origin_clients.ts";
import type { Row, Scenario } from "../scenario.ts";
import { EXPIRY_AND_EVICTION, other, reader, tokenWriter, writer } from "./roles.ts";

// The flows of the client library, and the ways to stale values if one of its rules is taken out.

const GRACE = { graceSec: flows.GRACE_SEC };
const TAGGED: Partial<Scenario> = { caches: 2, isServed: flows.isServed };

/** Writers of a row by `putRow`, and a reader, at an origin. */
const ROWS = {
  roles: [reader(1, clients.originReader()), writer(1, rowPutter())],
  origin: {},
} satisfies Partial<Row>;

const rowFault = (name: string, fault: RowFault): Pick<Row, "name" | "roles" | "origin"> => ({
  ...ROWS,
  name: `client of rows: ${name}`,
  roles: [writer(1, rowPutter(fault, fault === "keeps token"))],
});

/** Outages, beside a client that has none. */
// deno-fmt-ignore
const OUTAGES: readonly Row[] = [
  { name: "client: the database fails loads",
    roles: [reader(1, flows.failingLoader("loads")), reader(1, flows.loader()), writer(1, flows.putter())],
    environment: EXPIRY_AND_EVICTION },
  { name: "client: the database fails loads, a value is in its grace",
    roles: [reader(1, flows.failingLoader("loads", GRACE)), reader(2, flows.graceLoader()), writer(1, flows.putter())],
    environment: { evict: 1 } },
  { name: "client: replies to looks are lost",
    roles: [reader(1, flows.failingLoader("looks")), reader(1, flows.loader()), writer(2, flows.putter())],
    environment: EXPIRY_AND_EVICTION },
  { name: "client: the tag's server is away",
    roles: [reader(1, flows.failingLoader("tags", { tags: ["t"] })), reader(1, flows.tagLoader()),
      writer(1, flows.tagPutter)], environment: { evict: 1 }, ...TAGGED },
  { name: "client: an invalidation does not arrive, and is sent again",
    roles: [reader(2, flows.loader()), writer(1, flows.failingPutter("invalidations")), writer(1, flows.putter())],
    environment: { restart: 1, evict: 1 } },
  { name: "client: a reply to an invalidation is lost, and it is sent again",
    roles: [reader(2, flows.loader()), writer(1, flows.failingPutter("replies to invalidations")),
      writer(1, flows.putter())], environment: { restart: 1, evict: 1 } },
  { name: "client: a reply to a token's release is lost, and it is sent again",
    roles: [reader(1, flows.loader()), tokenWriter(1, flows.failingPutter("replies to releases")),
      tokenWriter(1, flows.tokenPutter())], environment: EXPIRY_AND_EVICTION, values: "always" },
  { name: "client: an invalidation does not arrive, and its time is over",
    roles: [reader(1, flows.loader()), writer(1, flows.failingPutter("invalidations", 0))], filled: true,
    wrongAfter: 1 },
];

// deno-fmt-ignore
export const CLIENT: readonly Row[] = [
  { name: "client: getOrLoad and put",
    roles: [reader(3, flows.loader()), writer(2, flows.putter())], environment: EXPIRY_AND_EVICTION },
  { name: "client: getOrLoad and put; restarts, a value is there",
    roles: [reader(2, flows.loader()), writer(1, flows.putter())], environment: { restart: 1, evict: 1, time: 1 },
    filled: true },
  { name: "client: early refresh",
    roles: [reader(2, flows.refresher()), writer(2, flows.putter())], environment: { evict: 1 }, filled: true },
  { name: "client: grace",
    roles: [reader(3, flows.graceLoader()), writer(2, flows.putter())], environment: { evict: 1 } },
  { name: "client: grace, put with tokens",
    roles: [reader(3, flows.graceLoader()), tokenWriter(1, flows.tokenPutter())], environment: { evict: 1 },
    values: "always" },
  { name: "client: put with tokens",
    roles: [reader(2, flows.loader()), tokenWriter(2, flows.tokenPutter())],
    environment: { ...EXPIRY_AND_EVICTION, crash: 1 }, values: "always", filled: true },
  { name: "client: put with tokens, an outcome that is unknown",
    roles: [reader(2, flows.loader()), tokenWriter(1, flows.latePutter(false))], environment: EXPIRY_AND_EVICTION,
    values: "always" },
  { name: "client: a tag that may be evicted",
    roles: [reader(2, flows.tagLoader()), writer(1, flows.tagPutter)], environment: { evict: 1 }, ...TAGGED },
  { name: "client: put of a row, replies are lost", ...ROWS, environment: { loseReply: 2 } },
  { name: "client: put of a row, an attempt arrives late",
    ...ROWS, roles: [writer(1, rowPutter(undefined, true)), writer(1, rowPutter())],
    origin: { events: { databaseFails: 1 } } },
  { name: "client: put of a row, commits are lost", ...ROWS, environment: { loseReply: 1 },
    origin: { events: { loseCommit: 1, databaseFails: 1 } } },
  { name: "client: put of a row, the origin restarts", ...ROWS, environment: { loseReply: 1 },
    origin: { events: { restart: 1 } } },
  { name: "client: put of a row, which an operator revokes", ...ROWS,
    roles: [...ROWS.roles, other("operator", clients.revoker)], environment: { loseReply: 1 } },
  { ...rowFault("it takes an unknown outcome for a failure", "gives up"), environment: { loseReply: 2 },
    wrongAfter: 5 },
  { ...rowFault("it reports a failure and keeps the token", "keeps token"),
    origin: { events: { databaseFails: 1 } }, wrongAfter: 4 },
  ...OUTAGES,
  { name: "client without R1: it reads the row before it has the lease",
    roles: [reader(2, flows.loader("reads first")), writer(1, flows.putter())], wrongAfter: 5 },
  { name: "client without R2: it fills again with a value that was refused",
    roles: [reader(1, flows.loader("repeats fill")), writer(1, flows.putter())], wrongAfter: 7 },
  { name: "client without R3 and R10: it fills under the lease of another; writers keep R5",
    roles: [reader(1, flows.loader()), reader(1, flows.loader("borrows lease")), writer(2, flows.putter())],
    environment: EXPIRY_AND_EVICTION },
  { name: "client without R4: it fills by set",
    roles: [reader(1, flows.loader("fills by set")), writer(1, flows.putter())], wrongAfter: 5 },
  { name: "client without R4: it refreshes by set",
    roles: [reader(1, flows.refresher("fills by set")), writer(1, flows.putter())], filled: true, wrongAfter: 5 },
  { name: "client without R4: it fills by set after the time to live, in the grace",
    roles: [reader(2, flows.graceLoader("fills by set")), writer(1, flows.putter())], wrongAfter: 5 },
  { name: "client without R5: it invalidates before the commit",
    roles: [reader(1, flows.loader()), writer(1, flows.putter("invalidates first"))], wrongAfter: 5 },
  { name: "client without R7: it releases a token whose commit may take effect",
    roles: [reader(1, flows.loader()), tokenWriter(1, flows.latePutter(true))], values: "always", wrongAfter: 6 },
  { name: "client without R8: the driver commits again after the release",
    roles: [reader(1, flows.loader()), tokenWriter(1, flows.tokenPutter("commits again"))], values: "always",
    wrongAfter: 7 },
  { name: "client: a token released before the commit",
    roles: [reader(1, flows.loader()), tokenWriter(1, flows.tokenPutter("releases first"))], values: "always",
    wrongAfter: 6 },
  { name: "client: a tag's version noted after the load",
    roles: [reader(1, flows.tagLoader("notes tag late")), writer(1, flows.tagPutter)], ...TAGGED, wrongAfter: 7 },
];
