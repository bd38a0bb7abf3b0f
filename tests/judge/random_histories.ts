import type { Operation } from "./operation.ts";

/** What a random history has. Chances are from 0 to 1. */
export interface Mixture {
  readonly operations: number;
  readonly clients: number;
  readonly writes: number;
  readonly deletes: number;
  readonly unknown: number;
  readonly failed: number;
  /** Of reads and writes that say the version. */
  readonly versions: number;
  /** Whether deletions say the version. */
  readonly isDeleteNamed: boolean;
  /** Of reads that return anything. */
  readonly wrong: number;
}

/** An operation in progress: with the moment at which it takes effect. */
type Planned = { -readonly [Field in keyof Operation]: Operation[Field] } & { at: number };

/** Returns operations of clients on the key "k" of an atomic register, in which some reads are then made wrong. */
export function randomHistory(random: () => number, mixture: Mixture): Operation[] {
  const choose = (count: number): number => Math.floor(random() * count);
  const free = new Array<number>(mixture.clients).fill(0);
  const planned = Array.from({ length: mixture.operations }, (_, index): Planned => {
    const client = choose(mixture.clients);
    const start = free[client]! + choose(4);
    const end = start + choose(5);
    free[client] = end + choose(2);
    const isWrite = random() < mixture.writes;
    const operation = !isWrite ? "get" : random() < mixture.deletes ? "delete" : "set";
    const isFailed = isWrite && random() < mixture.failed;
    const isUnknown = !isFailed && random() < mixture.unknown;
    return {
      ...{ client: `c${client}`, operation, key: "k", version: null, start },
      value: operation === "set" ? `v${index}` : null,
      end: isUnknown && random() < 0.5 ? null : end,
      outcome: isFailed ? "failed" : isUnknown ? "unknown" : "ok",
      at: start + (isUnknown ? choose(20) : random() * (end - start)),
    };
  });
  takeEffect(planned.toSorted((one, other) => one.at - other.at), random, mixture);
  for (const read of planned) {
    if (read.operation !== "get" || random() >= mixture.wrong) continue;
    const other = planned[choose(planned.length)]!;
    [read.value, read.version] = [other.value, random() < 0.7 ? other.version : choose(5)];
    if (random() < 0.1) read.value = "nobody's";
  }
  return planned.map(({ at: _, ...operation }) => operation);
}

/** Executes the operations. */
function takeEffect(planned: readonly Planned[], random: () => number, mixture: Mixture): void {
  let [value, version, highest]: [string | null, number, number] = [null, 0, 0];
  for (const operation of planned) {
    const isSaid = random() < mixture.versions;
    if (operation.operation === "get") {
      operation.value = value;
      if (isSaid) operation.version = version;
    } else if (operation.outcome === "ok" || operation.outcome === "unknown" && random() < 0.5) {
      [value, version] = [operation.value, ++highest];
      const isDelete = operation.operation === "delete";
      if (operation.outcome === "ok" && (isSaid || isDelete && mixture.isDeleteNamed)) {
        operation.version = version;
      }
    }
  }
}
