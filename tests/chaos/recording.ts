import { assertEquals } from "@std/assert";
import { judge, violationText } from "../judge/judge.ts";
import type { Operation } from "../judge/operation.ts";
import { historyText } from "../judge/read_history.ts";
import { type Committed, type History, violationsOf } from "./history.ts";

/** Names a folder in which each run leaves its history, for `deno task judge`. */
const FOLDER_VARIABLE = "LEASED_TESTS_HISTORIES";

/** A write that was begun. */
export type Write = { -readonly [Field in keyof Operation]: Operation[Field] };

/** Whether and where two checkers that share no code find violations. */
export interface Found {
  /** By `violationsOf`, which knows what the database has committed. */
  readonly byCommits: readonly string[];
  /** By `judge`, which knows when writes have begun. */
  readonly byZones: readonly string[];
}

/** A read that was answered. Times are places in the order of all that the test sees. */
export interface Read {
  readonly by: string;
  readonly command: "get" | "gets" | "uget";
  readonly key: string;
  /** Null: no such row. */
  readonly value: string | null;
  /** Null: the reply had none. */
  readonly version: number | null;
  readonly began: number;
  readonly ended: number;
}

/** Records reads and writes of rows for both checkers. */
export class Recording {
  readonly history: History;
  readonly operations: Operation[];

  constructor(
    history: History = { acknowledged: [], observed: [], committed: [], failed: [] },
    operations: Operation[] = [],
  ) {
    this.history = history;
    this.operations = operations;
  }

  read({ by, command, key, value, version, began, ended }: Read): void {
    this.history.observed.push({ key, value, began, ended, by });
    this.operations.push({
      ...{ client: by, operation: command, key, value, version },
      ...{ start: began, end: ended, outcome: "ok" },
    });
  }

  /** Records that a write begins. Its outcome is unknown until it is told. */
  begin(client: string, operation: string, key: string, value: string, start: number): Write {
    const write: Write = {
      ...{ client, operation, key, value, version: null },
      ...{ start, end: null, outcome: "unknown" },
    };
    this.operations.push(write);
    return write;
  }

  /** @param version Null: the client knows that it was written, and no version. */
  acknowledge(write: Write, version: number | null, at: number): void {
    Object.assign(write, { version, end: at, outcome: "ok" });
    const { key, value } = write;
    if (version !== null) this.history.acknowledged.push({ key, value: value!, version, at });
  }

  /** Records that the client was told that nothing is and will be written. */
  fail(write: Write, at: number): void {
    Object.assign(write, { end: at, outcome: "failed" });
    this.history.failed.push({ key: write.key, value: write.value! });
  }

  /** @param committed All versions of all rows. */
  commit(committed: readonly Committed[]): void {
    this.history.committed.push(...committed);
  }

  /** Returns a copy, to which a fault is done. */
  copy(): Recording {
    return new Recording(structuredClone(this.history), structuredClone(this.operations));
  }

  find(): Found {
    return {
      byCommits: violationsOf(this.history),
      byZones: judge(this.operations).violations.map(violationText),
    };
  }

  /** @throws When one of the checkers finds a violation. */
  assertIsRight(): void {
    const { byCommits, byZones } = this.find();
    const count = `${byCommits.length} and ${byZones.length} violations`;
    assertEquals({ byCommits, byZones }, { byCommits: [], byZones: [] }, count);
  }

  /** Writes the history where the environment says so. @param name Of the file, without `.jsonl`. */
  async keep(name: string): Promise<void> {
    const folder = Deno.env.get(FOLDER_VARIABLE);
    if (folder === undefined) return;
    await Deno.writeTextFile(`${folder}/${name}.jsonl`, historyText(this.operations));
  }
}
