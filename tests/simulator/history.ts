/** What a client did, and saw. The format is that of the judge of histories. */
export interface Operation {
  readonly client: string;
  readonly operation: "get" | "gets" | "uget" | "view" | "set" | "add" | "cas" | "delete";
  readonly key: string;
  /** What was read or written; null: nothing is there. */
  readonly value: string | null;
  /** The version that was read; null: it is not known. */
  readonly version: number | null;
  /** The version that `cas` compares. */
  readonly compared?: number;
  /** Place in the order of everything that happened. */
  readonly start: number;
  /** As `start`; null: it has never ended. */
  readonly end: number | null;
  /** `failed`: it certainly had no effect. `unknown`: it may have an effect at any time after its start. */
  readonly outcome: "ok" | "failed" | "unknown";
}

/** What all clients did. */
export class History {
  readonly operations: Operation[] = [];
  #now = 0;

  /** The next place in the order of everything. */
  tick(): number {
    return this.#now++;
  }

  add(operation: Operation): void {
    this.operations.push(operation);
  }

  /** One line an operation, in JSON. */
  get text(): string {
    return this.operations.map((operation) => `${JSON.stringify(operation)}\n`).join("");
  }
}

const READS: ReadonlySet<Operation["operation"]> = new Set(["get", "gets", "uget", "view"]);

/** Whether an operation reads. */
export function isRead({ operation }: Operation): boolean {
  return READS.has(operation);
}
