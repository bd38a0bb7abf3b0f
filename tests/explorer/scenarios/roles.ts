import type { MakeActor } from "../steps.ts";
import * as others from "../actors/others.ts";
import * as readers from "../actors/readers.ts";
import * as tokenWriters from "../actors/token_writers.ts";
import * as writers from "../actors/writers.ts";
import type { Role, Scenario } from "../scenario.ts";

// Roles that many scenarios have.

/** One deadline passes, and one value or lease is evicted, at any time. */
export const EXPIRY_AND_EVICTION: NonNullable<Scenario["environment"]> = { time: 1, evict: 1 };

export const reader = (count: number, act: MakeActor = readers.reader): Role => ({
  name: "reader",
  count,
  act,
});
export const writer = (count: number, act: MakeActor = writers.writer): Role => ({
  name: "writer",
  count,
  isWriter: true,
  act,
});
/** Writers with update tokens. */
export const tokenWriter = (count: number, act: MakeActor = tokenWriters.tokenWriter): Role =>
  writer(count, act);
export const other = (name: string, act: MakeActor, count = 1): Role => ({ name, count, act });
export const plainSetters = (count: number): Role =>
  other("plain setter", others.plainSetter, count);
