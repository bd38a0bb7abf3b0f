import * as readers from "../actors/readers.ts";
import * as writers from "../actors/writers.ts";
import type { Row } from "../scenario.ts";
import { EXPIRY_AND_EVICTION, reader, writer } from "./roles.ts";

/** Larger scenarios, which only `deno task explore` runs. */
export const LARGE: readonly Row[] = [
  {
    name: "three readers, two writers, two expiries and two evictions",
    roles: [reader(3), writer(2)],
    environment: { time: 2, evict: 2 },
  },
  {
    name: "three readers, two writers, a restart and a crash are not safe",
    roles: [reader(3), writer(2)],
    environment: { restart: 1, crash: 1 },
    wrongAfter: 5,
  },
  {
    name: "three readers, two restarts, ids never repeat",
    roles: [reader(3), writer(1)],
    environment: { time: 1, evict: 1, restart: 2 },
  },
  {
    name: "two readers, two writers that read afresh",
    roles: [reader(2), writer(2, writers.warmingWriter)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "two by getss, one by lease-get, two writers",
    roles: [reader(2), reader(1, readers.mcrouterReader), writer(2)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "a reader of every kind",
    roles: [
      reader(1),
      reader(1, readers.slowReader),
      reader(1, readers.metaReader),
      reader(1, readers.mcrouterReader),
      writer(1),
    ],
    environment: { time: 1 },
  },
];
