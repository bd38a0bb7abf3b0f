import { assertEquals, assertRejects } from "@std/assert";
import type { Operation } from "./operation.ts";
import { HistoryError, historyText, readHistory } from "./read_history.ts";
import { path } from "../support/servers/server_process.ts";

const GOOD: Operation = {
  ...{ client: "A", operation: "set", key: "k", value: "ä\n", version: 1 },
  ...{ start: 0.5, end: 2, outcome: "ok" },
};
const LINE = historyText([GOOD]);

/** Has a file with the content. */
async function withFile<T>(
  content: string | Uint8Array,
  use: (path: string) => Promise<T>,
): Promise<T> {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeFile(
      file,
      typeof content === "string" ? new TextEncoder().encode(content) : content,
    );
    return await use(file);
  } finally {
    await Deno.remove(file);
  }
}

async function refusalOf(content: string | Uint8Array): Promise<HistoryError> {
  return await assertRejects(() => withFile(content, readHistory), HistoryError) as HistoryError;
}

Deno.test("a history is read as it was written", async () => {
  const all: Operation[] = [
    GOOD,
    { ...GOOD, operation: "get", value: null, version: null, end: 0.5 },
    { ...GOOD, version: null, end: null, outcome: "unknown" },
    { ...GOOD, operation: "uget", end: 7, outcome: "failed" },
  ];
  // More than a piece of a file.
  const many = Array.from({ length: 3000 }, () => all).flat();
  assertEquals(await withFile(historyText(many), readHistory), many);
  assertEquals(await withFile(historyText(all).trimEnd(), readHistory), all);
});

Deno.test("fields that the format does not have are ignored", async () => {
  const text = JSON.stringify({ ...GOOD, seed: 1 });
  assertEquals(await withFile(text, readHistory), [GOOD]);
});

const WHOLE = "a whole number from 0 to 9007199254740991, or null";

const MALFORMED: readonly (readonly [line: string, message: string])[] = [
  ["", 'no JSON: "Unexpected end of JSON input"'],
  ["[]", "a JSON object is expected"],
  ["null", "a JSON object is expected"],
  ["7", "a JSON object is expected"],
  ["{}", "client is missing: a text"],
  [changed({ client: 7 }), 'client is "7": a text'],
  [changed({ operation: null }), 'operation is "null": a text'],
  [changed({ key: ["k"] }), 'key is "[\\"k\\"]": a text'],
  [changed({ value: 7 }), 'value is "7": a text, or null for absent'],
  [changed({ value: undefined }), "value is missing: a text, or null for absent"],
  [changed({ version: -1 }), `version is "-1": ${WHOLE}`],
  [changed({ version: 1.5 }), `version is "1.5": ${WHOLE}`],
  [changed({ version: 2 ** 53 }), `version is "9007199254740992": ${WHOLE}`],
  [changed({ version: "1" }), `version is "\\"1\\"": ${WHOLE}`],
  [changed({ start: null }), 'start is "null": a number'],
  [LINE.replace("0.5", "1e999"), 'start is "null": a number'],
  [changed({ end: 0 }), 'end is "0": start or later, or null'],
  [changed({ end: "2" }), 'end is "\\"2\\"": start or later, or null'],
  [changed({ end: null }), 'end is "null": what is ok has ended'],
  [changed({ outcome: "OK" }), 'outcome is "\\"OK\\"": ok, failed, unknown'],
  [
    changed({ outcome: "unknown" }),
    'version is "1": null, as a write that is unknown has none',
  ],
  [
    " ".repeat(2 ** 20 + 1) + "{}",
    "a line of 1048579 characters; 1048576 at most",
  ],
];

function changed(fields: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ ...GOOD, ...fields });
}

for (const [line, message] of MALFORMED) {
  Deno.test(`refused: ${message}`, async () => {
    const text = `${LINE}${line.trimEnd()}\n${LINE}`;
    const error = await refusalOf(text);
    assertEquals([error.message, error.line], [message, 2]);
  });
}

Deno.test("a line without an end is refused before it fills the memory", async () => {
  const text = LINE + " ".repeat(2 ** 22);
  assertEquals((await refusalOf(text)).line, 2);
});

Deno.test("no text, no operations, no file: an error, no exception", async () => {
  const refusals: [Uint8Array, RegExp][] = [
    [new Uint8Array(), /^the history has no operation$/],
    [Uint8Array.of(0xff, 0x0a), /not valid|invalid/i],
    [Uint8Array.of(0x22, 0xc3), /not valid|invalid/i],
  ];
  for (const [bytes, message] of refusals) {
    const error = await refusalOf(bytes);
    assertEquals(message.test(error.message), true, error.message);
  }
  for (const name of ["/nowhere/history", "/tmp", "a\0b"]) {
    await assertRejects(() => readHistory(name), HistoryError);
  }
});

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function runJudge(...files: readonly string[]): Promise<Ended> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "--no-check", `--lock=${path("tests/deno.lock")}`, "--allow-read"],
      path("tests/judge/run.ts"),
      ...files,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, stdout: out!, stderr: err! };
}

Deno.test("the command prints a verdict for each file, and its status tells the worst", async () => {
  const stale: Operation[] = [
    GOOD,
    { ...GOOD, value: "b", version: 2, start: 3, end: 4 },
    { ...GOOD, client: "B", operation: "get", start: 5, end: 6 },
  ];
  await withFile(LINE, async (good) => {
    assertEquals(await runJudge(good), {
      code: 0,
      stdout: `${good}: 1 keys, 1 operations, 0 unclear, 0 left out: atomic\n`,
      stderr: "",
    });
    await withFile(historyText(stale), async (bad) => {
      const shown = `${bad}: 1 keys, 3 operations, 0 unclear, 0 left out: 1 violations\n` +
        String.raw`key "k": "\u00e4\n", then "b", then "\u00e4\n" again` + "\n" +
        String.raw`  [0.5..2] "A" set "\u00e4\n", version 1` + "\n" +
        '  [3..4] "A" set "b", version 2\n' +
        String.raw`  [5..6] "B" get "\u00e4\n", version 1` + "\n";
      const ended = await runJudge(bad, good);
      assertEquals(ended.code, 1);
      assertEquals(ended.stdout.split(`${good}:`)[0], shown);
      await withFile(`${LINE}{}\n`, async (malformed) => {
        const { code, stderr } = await runJudge(malformed, bad);
        assertEquals([code, stderr], [65, `${malformed}:2: client is missing: a text\n`]);
      });
    });
    await withFile(LINE + LINE, async (twice) => {
      const { code, stderr } = await runJudge(twice);
      assertEquals(code, 65);
      assertEquals(
        stderr,
        String
          .raw`${twice}: key "k": "\u00e4\n" is written twice, at 0.5 and at 0.5: every write needs a ` +
          "value of its own\n",
      );
    });
  });
  const { code, stderr } = await runJudge();
  assertEquals([code, stderr], [64, "name files of histories: deno task judge <file>…\n"]);
});
