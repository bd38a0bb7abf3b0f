import { assert, assertEquals, assertRejects } from "@std/assert";
import { allAnswers, manyAnswers, type Part } from "../../../lib/client/answers.ts";
import { Client, PartialError, textCodec } from "../../../lib/client/mod.ts";
import { testServers } from "./servers.ts";

const MIB = 1 << 20;

/** Parts that are answered by hand, in the order of asking. */
class ManualParts {
  readonly parts: Part<string>[];
  readonly asked: string[] = [];
  readonly #answers: ((error?: Error) => void)[] = [];

  constructor(sizes: readonly number[]) {
    this.parts = sizes.map((bytes, index) => ({
      ...{ name: `${index}`, bytes },
      ask: () =>
        new Promise((resolve, reject) => {
          this.asked.push(`${index}`);
          this.#answers.push((error) => error === undefined ? resolve(`a${index}`) : reject(error));
        }),
    }));
  }

  /** Answers the first so many that wait. */
  async answer(count: number, error?: Error): Promise<void> {
    for (const each of this.#answers.splice(0, count)) each(error);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

Deno.test("a large call has at most 1,000 requests under way, and all are answered", async () => {
  const manual = new ManualParts(new Array(2_500).fill(0));
  const all = allAnswers(manual.parts);
  assertEquals(manual.asked.length, 1_000);
  await manual.answer(1);
  assertEquals(manual.asked.length, 1_001);
  await manual.answer(1_000);
  assertEquals(manual.asked.length, 2_001);
  await manual.answer(1_000);
  await manual.answer(499);
  const answers = await all;
  assertEquals(answers.length, 2_500);
  assertEquals(answers.every(([name, answer]) => answer === `a${name}`), true);
  assertEquals(await allAnswers([]), []);
});

Deno.test("a large call has values of 4 MiB under way, or one that is larger", async () => {
  const manual = new ManualParts([MIB, 2 * MIB, MIB, 1, 9 * MIB, 1, MIB]);
  const all = manyAnswers(manual.parts, (answers) => answers.map(([name]) => name).join());
  assertEquals(manual.asked.length, 3);
  await manual.answer(1);
  assertEquals(manual.asked.length, 4);
  await manual.answer(2);
  assertEquals(manual.asked.length, 4);
  await manual.answer(1);
  assertEquals(manual.asked.length, 5, "the larger one, alone");
  await manual.answer(1);
  assertEquals(manual.asked.length, 7);
  await manual.answer(2);
  assertEquals(await all, "0,1,2,3,4,5,6");
});

Deno.test("reads end with the first error and ask no more; stores go on", async () => {
  const reads = new ManualParts(new Array(1_200).fill(0));
  const read = assertRejects(() => allAnswers(reads.parts), Error, "broken");
  await reads.answer(1, new Error("broken"));
  await read;
  await reads.answer(999);
  assertEquals(reads.asked.length, 1_000);
  const stores = new ManualParts(new Array(1_200).fill(0));
  const store = assertRejects(
    () => manyAnswers(stores.parts, ({ length }) => length),
    PartialError,
  );
  await stores.answer(1, new Error("broken"));
  await stores.answer(1_000);
  await stores.answer(199);
  const { keys, result } = (await store) as PartialError;
  assertEquals([keys, result], [["0"], 1_199]);
});

Deno.test("stores of which some are answered before the signal aborts end with its reason", async () => {
  const manual = new ManualParts([1, 1]);
  const controller = new AbortController();
  const all = manyAnswers(manual.parts, ({ length }) => length, controller.signal).catch((error) =>
    error
  );
  await manual.answer(1);
  const reason = new Error("too late");
  controller.abort(reason);
  await manual.answer(1, reason);
  assertEquals(await all, reason);
});

testServers("calls of more bytes than may wait for a connection", async (address) => {
  await using client = new Client<string>(address, { codec: textCodec, queueBytesMax: 9 * MIB });
  const value = "x".repeat(500_000);
  const keys = Array.from({ length: 60 }, (_, index) => `k${index}`);
  assertEquals(await client.setMany(keys.map((key) => [key, `${key} ${value}`])), []);
  const found = await client.getMany(keys);
  assertEquals([...found.keys()], keys);
  for (const [key, text] of found) assert(text.startsWith(`${key} x`));
  const many = Array.from({ length: 30_000 }, (_, index) => `m${index}`);
  assertEquals(await client.setMany(many.map((key) => [key, key])), []);
  assertEquals(await client.getMany(many), new Map(many.map((key) => [key, key])));
  assertEquals(await client.deleteMany([...many, "none"]), many.length);
});
