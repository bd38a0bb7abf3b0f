import * as others from "../actors/others.ts";
import * as readers from "../actors/readers.ts";
import * as writers from "../actors/writers.ts";
import * as mutations from "../mutations.ts";
import type { Row } from "../scenario.ts";
import { other, plainSetters, reader, writer } from "./roles.ts";

/** Faults that must be found. */
export const FAULTS: readonly Row[] = [
  {
    name: "fault: delete does not renew",
    roles: [reader(2), writer(1, writers.deletingWriter)],
    mutation: mutations.deleteDoesNotRenew,
    wrongAfter: 5,
  },
  {
    name: "fault: incr keeps the lease",
    roles: [reader(2), writer(1, writers.countingWriter)],
    mutation: mutations.incrKeepsTheLease,
    wrongAfter: 5,
  },
  {
    name: "fault: deletess keeps the lease's id",
    roles: [reader(2), writer(1)],
    mutation: mutations.deletessKeepsTheId,
    wrongAfter: 5,
  },
  {
    name: "fault: cas on a lease ignores the id",
    roles: [reader(2), writer(1)],
    mutation: mutations.casIgnoresTheId,
    wrongAfter: 5,
  },
  {
    name: "fault: cas fills where there is nothing",
    roles: [reader(2), writer(1, writers.deletingWriter)],
    environment: { time: 1 },
    mutation: mutations.casFillsNothing,
    wrongAfter: 6,
  },
  {
    name: "fault: everybody is told the lease is new; a writer deletes first",
    roles: [reader(1), writer(1, writers.deleteFirstWriter)],
    mutation: mutations.everybodyGetsTheLease,
    wrongAfter: 6,
  },
  {
    name: "fault: flush_all leaves leases",
    roles: [reader(2), writer(1, writers.flushingWriter)],
    mutation: mutations.flushKeepsLeases,
    ignores: ["S9"],
    wrongAfter: 5,
  },
  {
    name: "fault: touch lengthens a dirty value",
    roles: [reader(1), plainSetters(1), other("toucher", others.toucher)],
    environment: { time: 2 },
    mutation: mutations.touchLengthensDirtyValues,
    wrongAfter: 6,
  },
  {
    name: "fault: a second plain write is not cut",
    roles: [reader(1), plainSetters(2)],
    environment: { time: 2 },
    mutation: mutations.dirtyWindowEndsWithTheFirstWrite,
    wrongAfter: 8,
  },
  {
    name: "fault: set is judged at its command line",
    roles: [reader(2, readers.slowReader), writer(1)],
    mutation: mutations.judgedAtTheLine(),
    wrongAfter: 6,
  },
];
