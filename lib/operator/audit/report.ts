import { percentEncoded } from "../../../store/base/key_text.ts";
import type { AuditCounts, Difference } from "./audit.ts";
import type { CanaryCounts, WrongRead } from "./canary.ts";
import type { ValueDigest } from "../../peers/peer.ts";

/** Clears the line of the terminal that the cursor is in. */
const CLEAR = "\r\x1b[K";
const ENCODER = new TextEncoder();

/** Writes the findings to stdout, one a line. On a terminal, the number of keys so far stands below them. */
export class Report {
  readonly #isTerminal = Deno.stdout.isTerminal();
  /** The cache in progress, and the number of its keys. */
  #cache = "";
  #keys = 0;

  /** Whether it shows the progress, and so needs the number of keys. */
  get showsProgress(): boolean {
    return this.#isTerminal;
  }

  /** @param keys Number of keys that the cache says it has. */
  start(cache: string, keys: number): void {
    this.#cache = cache;
    this.#keys = keys;
  }

  /** Shows how many keys of the cache have been compared. */
  progress(keys: number): void {
    if (!this.#isTerminal) return;
    // A cache that grows has more keys than it said.
    print(`${CLEAR}${this.#cache} ${keys}/${Math.max(keys, this.#keys)} keys`);
  }

  difference(
    cache: string,
    { key, cached, committed: { value, version, mark } }: Difference,
  ): void {
    this.#line([
      `difference cache=${cache} key=${percentEncoded(key)}`,
      `cached_id=${cached.id} ${digestText("cached", cached)}`,
      `row_version=${version} ${digestText("row", value)} mark=${mark}`,
    ]);
  }

  /** Writes a cache's counts. */
  end(cache: string, counts: AuditCounts): void {
    this.#line([
      `audited cache=${cache}`,
      ...Object.entries(counts).map(([name, count]) => `${name}=${count}`),
    ]);
  }

  /** Writes a read of a canary key that returned less than it had to. */
  wrong(end: "stale" | "lost", { cache, key, read, expected }: WrongRead): void {
    this.#line([
      `${end} cache=${cache} key=${percentEncoded(key)} read=${read} expected=${expected}`,
      `at=${new Date().toISOString()}`,
    ]);
  }

  /** Writes the counts of a canary. */
  canary(counts: CanaryCounts): void {
    this.#line(["canary", ...Object.entries(counts).map(([name, count]) => `${name}=${count}`)]);
  }

  /** Removes the progress of a cache that has failed. */
  abandon(): void {
    if (this.#isTerminal) print(CLEAR);
  }

  #line(words: readonly string[]): void {
    print(`${this.#isTerminal ? CLEAR : ""}${words.join(" ")}\n`);
  }
}

/** Writes to stdout, synchronously. A closed stdout is ignored: the exit status tells the result. */
function print(text: string): void {
  try {
    for (let bytes = ENCODER.encode(text); bytes.length > 0;) {
      bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
    }
  } catch {
    // The reader of stdout is gone.
  }
}

function digestText(name: string, value: ValueDigest | null): string {
  if (value === null) return `${name}_flags=- ${name}_bytes=- ${name}_sha256=-`;
  const { flags, bytes, sha256 } = value;
  return `${name}_flags=${flags} ${name}_bytes=${bytes} ${name}_sha256=${sha256}`;
}
