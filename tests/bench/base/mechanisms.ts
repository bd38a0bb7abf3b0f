import { ROOT } from "./servers.ts";

/** A text of a source file, and the text that takes its place. */
export type Change = readonly [file: string, text: string, instead: string];

/** Mechanisms for speed, and the changes of the sources that take each out. */
export const MECHANISMS: Readonly<Record<string, readonly Change[]>> = {
  "hot-keys": [
    ["store/memory/hot_keys.ts", "    if (--this.left === 0) this.sample(key, use);\n", ""],
  ],
  "huge-pages": [[
    "lib/net/native/thread.ts",
    "    if (context.threadIndex === 0) adviseHugePages(this.#libc, memory);\n",
    "",
  ]],
  "poll-often": [["lib/net/portable/bind.ts", "  pollOften();\n", ""]],
  "prefetch-lines": [[
    "protocol/text/parser.ts",
    "      if (at >= prefetchedTo) prefetchedTo = prefetchLines(this.#thread, at, end);\n",
    "",
  ]],
  "read-pools": [[
    "lib/net/portable/connection.ts",
    `    new BufferPool(IDLE_READ_BYTES, Infinity),
    new BufferPool(BUSY_READ_BYTES, 256),
    new BufferPool(BULK_READ_BYTES, 16, BULK_READ_BUFFERS_MAX),
`,
    "    new BufferPool(BUSY_READ_BYTES, Infinity),\n",
  ]],
};

/** Mechanisms for the speed of rows. */
export const ROW_MECHANISMS: Readonly<Record<string, readonly Change[]>> = {
  "further-groups": [
    ["lib/rows/origin/database_source.ts", "const GROUPS_MAX = 4;", "const GROUPS_MAX = 1;"],
  ],
  "further-group-min": [
    ["lib/rows/write_queue.ts", "const FURTHER_GROUP_MIN = 16;", "const FURTHER_GROUP_MIN = 1;"],
  ],
  "meter": [[
    "lib/cli/option_table.ts",
    '"10000",            "with --db or --origin: compare',
    '"0",                "with --db or --origin: compare',
  ]],
  "overdue-groups": [
    ["lib/rows/row_loop.ts", "const WRITES_WAIT_MS = 50;", "const WRITES_WAIT_MS = 3_600_000;"],
  ],
  "reads-at-once": [
    ["lib/rows/row_loop.ts", "const READS_AT_ONCE = 3;", "const READS_AT_ONCE = 1;"],
  ],
};

/** Folders and files that a server needs. */
const SOURCES = [
  "deno.json",
  "deno.lock",
  "main.ts",
  "LICENSE",
  "lib",
  "protocol",
  "store",
  "types",
];

/** A copy of the server's sources without a mechanism, in a folder that goes away with it. */
export class CheckoutWithout implements Disposable {
  readonly folder: string;

  constructor(mechanism: string) {
    const changes = { ...MECHANISMS, ...ROW_MECHANISMS }[mechanism]!;
    this.folder = Deno.makeTempDirSync({ prefix: `leased-without-${mechanism}-` });
    const from = SOURCES.map((name) => `${ROOT}/${name}`);
    const { success } = new Deno.Command("cp", { args: ["-R", ...from, this.folder] }).outputSync();
    if (!success) throw new Error(`Cannot copy the sources to ${this.folder}`);
    for (const [file, text, instead] of changes) {
      const path = `${this.folder}/${file}`;
      Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace(text, instead));
    }
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}
