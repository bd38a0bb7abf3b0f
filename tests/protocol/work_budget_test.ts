import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { HOLD_UNITS } from "../../protocol/work_budget.ts";
import { CLASS } from "../../store/memory/memory.ts";
import { costlyPackets, itemKey } from "../support/load/costly_requests.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../support/sessions/side.ts";

const ITEMS = 20_000;
const LEASES = 2000;
const HOT_TOKENS = 1000;
/** More than one step of `quarantine` removes. */
const LOCKS = 500;
const SLICE_REQUESTS = 500;
const SLICE_UNITS = 1000;
/** A step of long work, or a line of 1,024 keys, may be begun just before the end of a hold or a slice. */
const STEP_UNITS_MAX = 2048;
/** Slices of one packet that are looked at. */
const SLICES_MAX = 300;

/** Requests behind them are not executed. */
const LAST = /^(?:quit|watch|binary Quit)/;

/** @param threads With several, reads go without the mutex. */
function filled(threads = 1): ConversationSide {
  // deno-fmt-ignore
  const side = new ConversationSide(["-R", `${SLICE_REQUESTS}`, "-z", "3333", "--tokens", "volatile", "--token-quarantine", "0", "--allow-token-drop", "-t", `${threads}`]);
  const peer = side.connect();
  for (let at = 0; at < ITEMS; at += 100) {
    const keys = Array.from({ length: 100 }, (_, index) => itemKey(at + index));
    peer.ask(keys.map((key) => `set ${key} 0 0 1 noreply\r\nx\r\n`).join(""));
  }
  for (let at = 0; at < LEASES; at++) peer.ask(`getss 100 lease:${at}\r\n`);
  for (let at = 0; at < LEASES; at++) peer.ask(`token get token:${at} owner\r\n`);
  for (let at = 0; at < HOT_TOKENS; at++) peer.ask("token get hot\r\n");
  for (let at = 0; at < LOCKS; at++) peer.ask(`lock ${itemKey(at)}\r\n`);
  return side;
}

for (const threads of [1, 2]) {
  Deno.test(`no command works on beyond its slice, or holds the mutex beyond its hold, -t ${threads}`, async (t) => {
    const side = filled(threads);
    const { thread } = side;
    const { work, input, reply } = thread;
    let held = 0;
    let heldMost = 0;
    const beginHold = (): void => {
      heldMost = Math.max(heldMost, work.spent - held);
      held = work.spent;
    };
    const { cache } = thread;
    const enter = cache.enter.bind(cache);
    cache.enter = () => {
      beginHold();
      enter();
    };
    const yieldMutex = thread.yieldMutex.bind(thread);
    thread.yieldMutex = () => {
      if (!thread.isHolding) beginHold();
      yieldMutex();
    };
    for (const { name, text, requests } of costlyPackets()) {
      // They end the connection, or never end themselves.
      await t.step(name, () => {
        const conversation = side.protocols.open(side.connect().owner, { protocol: "auto" });
        const bytes = bytesOf(text);
        let at = 0;
        heldMost = 0;
        for (let slice = 0; slice < SLICES_MAX; slice++) {
          input.bytes.set(bytes.subarray(at));
          reply.reset();
          held = 0;
          const taken = conversation.feed(0, bytes.length - at);
          at += taken;
          if (!LAST.test(name)) assertLess(taken, (SLICE_REQUESTS + 1) * bytes.length / requests);
          heldMost = Math.max(heldMost, work.spent - held);
          assertLess(work.spent, SLICE_UNITS + STEP_UNITS_MAX);
          assertLess(heldMost, HOLD_UNITS + STEP_UNITS_MAX);
          if (conversation.state !== 1) break;
        }
        conversation.end();
        cache.enter();
        thread.connections.close(conversation.owner);
        cache.leave();
      });
    }
    side.check();
  });
}

const LONG = [
  ..."stats sizes|keys nope|lease list zzz|token list|lru_crawler metadump all".split("|"),
  ..."stats cachedump 1 0|lock list|token drop hot unsafe|token drop_all unsafe".split("|"),
];

for (const command of LONG) {
  Deno.test(`one ${command} takes several slices, and its reply is whole`, () => {
    const side = filled();
    const conversation = side.protocols.open(side.connect().owner, { protocol: "auto" });
    const { input, reply, work } = side.thread;
    const whole = filled().connect().ask(`${command}\r\nmn\r\n`);
    const request = bytesOf(`${command}\r\nmn\r\n`);
    let text = "";
    let slices = 0;
    let units = 0;
    let at = 0;
    do {
      input.bytes.set(request.subarray(at));
      reply.reset();
      at += conversation.feed(0, request.length - at);
      text += String.fromCharCode(...reply.region.bytes.subarray(0, reply.length));
      slices++;
      units += work.spent;
    } while (conversation.state === 1);
    assertGreater(slices, 1);
    assertGreater(units, SLICE_UNITS);
    assertEquals(text.length, whole.length);
    conversation.end();
  });
}

Deno.test("quarantine on removes every locked value, in slices", () => {
  const side = filled();
  const peer = side.connect();
  let slices = 0;
  peer.between = () => assertLess(++slices, SLICES_MAX);
  assertEquals(peer.ask("quarantine on\r\nlock list\r\n"), "OK\r\nEND\r\n");
  for (const at of [0, LOCKS - 1]) assertEquals(peer.ask(`get ${itemKey(at)}\r\n`), "END\r\n");
  side.check();
});

Deno.test("slabs reassign is charged with the chunks that it empties", () => {
  const side = filled();
  const { input, memory, work } = side.thread;
  const { classes } = memory;
  const pagesOf = (classId: number): number => classes[classId * CLASS.WORDS + CLASS.PAGES]!;
  let source = 1;
  while (pagesOf(source) < 2) source++;
  const usedBefore = pagesOf(source);
  const conversation = side.protocols.open(side.connect().owner, { protocol: "auto" });
  const request = bytesOf(`slabs reassign ${source} 0\r\n`);
  let units = 0;
  let at = 0;
  do {
    input.bytes.set(request.subarray(at));
    at += conversation.feed(0, request.length - at);
    units += work.spent;
  } while (conversation.state === 1);
  assertEquals(pagesOf(source), usedBefore - 1);
  assertGreater(units, SLICE_UNITS, "a page has hundreds of chunks");
  conversation.end();
});

Deno.test("token drop lets others in between: the key stays uncacheable, and their new tokens stay", () => {
  const side = filled();
  const conversation = side.protocols.open(side.connect().owner, { protocol: "auto" });
  const { input, reply } = side.thread;
  const request = bytesOf("token drop hot unsafe\r\n");
  input.bytes.set(request);
  reply.reset();
  const used = conversation.feed(0, request.length);
  assertEquals(conversation.state, 1);
  const other = side.connect();
  const [, id] = /TOKEN (\d+)/.exec(other.ask("token get hot\r\n"))!;
  assertEquals(other.ask("set hot 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
  let left = request.slice(used);
  let text = "";
  do {
    input.bytes.set(left);
    reply.reset();
    left = left.slice(conversation.feed(0, left.length));
    text += textOf(reply.region.bytes.subarray(0, reply.length));
  } while (conversation.state === 1);
  assertEquals(text, `OK ${HOT_TOKENS}\r\n`);
  assertEquals(side.drops.length, HOT_TOKENS);
  assertEquals(other.ask(`token release hot ${id}\r\n`), "OK\r\n");
  assertEquals(other.ask("set hot 0 0 1\r\nx\r\n"), "STORED\r\n");
  conversation.end();
  side.check();
});

Deno.test("pieces appended to a long value are charged with the copies of that value", () => {
  const side = new ConversationSide();
  const peer = side.connect();
  peer.ask(`set long 0 0 500000\r\n${"v".repeat(500_000)}\r\n`);
  const conversation = side.protocols.open(side.connect().owner, { protocol: "auto" });
  const { input, reply, work } = side.thread;
  const request = bytesOf("prepend long 0 0 1\r\nx\r\n".repeat(100));
  input.bytes.set(request);
  reply.reset();
  assertLess(conversation.feed(0, request.length), request.length);
  assertGreater(work.spent, 4096);
  conversation.end();
});
