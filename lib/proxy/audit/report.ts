import process from "node:process";
import ProgressBar from "progress";
import { percentEncoded } from "../../../store/base/key_text.ts";
import type { AuditCounts, Difference } from "./audit.ts";
import type { ValueDigest } from "./peer.ts";

const BAR_WIDTH = 30;
const ENCODER = new TextEncoder();

/** Writes the findings to stdout, one a line. On a terminal, a progress bar stands below them. */
export class Report {
  readonly #isTerminal = Deno.stdout.isTerminal();
  #bar: ProgressBar | null = null;

  /** Whether it shows a progress bar, and so needs the number of keys. */
  get showsProgress(): boolean {
    return this.#isTerminal;
  }

  /** Starts the progress bar of a cache. */
  start(cache: string, keys: number): void {
    if (!this.#isTerminal) return;
    this.#bar = new ProgressBar(`${cache} [:bar] :current/:total keys, :eta s left`, {
      total: Math.max(1, keys),
      width: BAR_WIDTH,
      stream: process.stdout,
      clear: true,
    });
  }

  progress(keys: number): void {
    const bar = this.#bar;
    if (bar === null) return;
    // A cache that grows has more keys than it said.
    bar.total = Math.max(bar.total, keys + 1);
    bar.tick(keys - bar.curr);
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

  /** Ends the progress bar of a cache, and writes the cache's counts. */
  end(cache: string, counts: AuditCounts): void {
    this.#bar?.terminate();
    this.#bar = null;
    this.#line([
      `audited cache=${cache}`,
      ...Object.entries(counts).map(([name, count]) => `${name}=${count}`),
    ]);
  }

  /** Ends the progress bar of a cache that has failed. */
  abandon(): void {
    this.#bar?.terminate();
    this.#bar = null;
  }

  #line(words: readonly string[]): void {
    const line = words.join(" ");
    if (this.#bar !== null) return this.#bar.interrupt(line);
    try {
      for (let bytes = ENCODER.encode(`${line}\n`); bytes.length > 0;) {
        bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
      }
    } catch {
      // The reader of stdout is gone; the exit status still tells.
    }
  }
}

function digestText(name: string, value: ValueDigest | null): string {
  if (value === null) return `${name}_flags=- ${name}_bytes=- ${name}_sha256=-`;
  const { flags, bytes, sha256 } = value;
  return `${name}_flags=${flags} ${name}_bytes=${bytes} ${name}_sha256=${sha256}`;
}
