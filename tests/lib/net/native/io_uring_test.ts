import {
  assert,
  assertEquals,
  assertGreater,
  assertLess,
  assertMatch,
  assertThrows,
} from "@std/assert";
import { IoUringError } from "../../../../lib/net/transport.ts";
import { IoUring, type OpenRing, openRing } from "../../../../lib/net/native/io_uring.ts";
import {
  AF_INET,
  EAGAIN,
  EINVAL,
  ENOSYS,
  EPERM,
  EPIPE,
  Libc,
  SHUT_WR,
  SOCK_CLOEXEC,
  SOCK_STREAM,
} from "../../../../lib/net/native/libc.ts";
import { RingIo } from "../../../../lib/net/native/round_io.ts";
import { resolveAddresses } from "../../../../lib/net/native/socket_address.ts";
import { allocatedBytes } from "../../../support/load/feed_loop.ts";
import { randomFrom } from "../../../support/random.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { failingSetup } from "../../../support/servers/failing_setup.ts";
import { FaultyRing } from "../../../support/servers/faulty_ring.ts";
import { IO_URING_MISSING } from "../../../support/servers/io_uring.ts";
import { serveInThisThread } from "../../../support/servers/native_in_process.ts";
import { replaceCalls } from "../../../support/servers/replaced_calls.ts";
import {
  path,
  runToEnd,
  ServerProcess,
  TRANSPORTS,
} from "../../../support/servers/server_process.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

const ignore = IO_URING_MISSING !== "";
const ENTRIES = 8;
const OS_ERROR = 71;
const NO_IO_URING = path("tests/support/servers/no_io_uring.ts");

/** Bytes of an operation. */
const SLOT = 64;

/** A ring with one region, in which each operation has a slot. */
class TestedRing extends IoUring {
  readonly bytes = new Uint8Array(SLOT * ENTRIES);

  constructor(libc: Libc, open: OpenRing = openRing(libc, ENTRIES)) {
    super(libc, open);
    this.addRegion(this.bytes);
  }
}

/** Two ends of a connection. */
class Pair implements Disposable {
  readonly ends: readonly [number, number];
  readonly #libc: Libc;

  constructor(libc: Libc) {
    this.#libc = libc;
    const { calls } = libc;
    const { bytes } = resolveAddresses(libc, "tcp", "127.0.0.1", 0)[0]!;
    const listener = calls.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assertEquals(calls.bind(listener, bytes, bytes.length), 0);
    assertEquals(calls.listen(listener, 1), 0);
    assertEquals(calls.getsockname(listener, bytes, new Int32Array([bytes.length])), 0);
    const first = calls.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assertEquals(calls.connect(first, bytes, bytes.length), 0);
    this.ends = [first, calls.accept4(listener, null, null, SOCK_CLOEXEC)];
    calls.close(listener);
  }

  [Symbol.dispose](): void {
    for (const fd of this.ends) this.#libc.calls.close(fd);
  }
}

/** Sends `words` over connections of their own, and returns what arrived. */
function exchange(libc: Libc, ring: TestedRing, words: readonly string[]): string[] {
  const { bytes: region } = ring;
  const pairs = words.map(() => new Pair(libc));
  const results = new Int32Array(ENTRIES);
  for (const [index, bytes] of words.map(bytesOf).entries()) {
    region.set(bytes, SLOT * index);
    ring.send(index, pairs[index]!.ends[0], 0, SLOT * index, bytes.length);
  }
  assertEquals(ring.run(results), words.length);
  assertEquals([...results.subarray(0, words.length)], words.map(({ length }) => length));
  region.fill(0);
  for (const index of words.keys()) {
    ring.receive(index, pairs[index]!.ends[1], 0, SLOT * index, SLOT);
  }
  assertEquals(ring.run(results), words.length);
  for (const pair of pairs) pair[Symbol.dispose]();
  return words.map((_, index) =>
    textOf(region.subarray(SLOT * index, SLOT * index + results[index]!))
  );
}

const WORDS = ["one", "two", "three", "four", "five"];

Deno.test({ name: "a ring sends and receives for several sockets at once", ignore }, () => {
  using libc = new Libc();
  const ring = new TestedRing(libc);
  // More rounds than entries, so that both rings wrap.
  for (let round = 0; round < 5 * ENTRIES; round++) {
    assertEquals(exchange(libc, ring, WORDS), WORDS);
  }
});

Deno.test({ name: "an operation of a ring never waits, and tells its error", ignore }, () => {
  using libc = new Libc();
  using pair = new Pair(libc);
  const [ours, theirs] = pair.ends;
  const ring = new TestedRing(libc);
  const results = new Int32Array(ENTRIES);
  ring.receive(3, ours, 0, 0, SLOT);
  assertEquals(ring.run(results), 1);
  assertEquals(results[3], -EAGAIN);
  libc.calls.shutdown(theirs, SHUT_WR);
  libc.calls.shutdown(ours, SHUT_WR);
  ring.receive(0, ours, 0, 0, SLOT);
  ring.send(1, ours, 0, 0, SLOT);
  assertEquals(ring.run(results), 2);
  assertEquals([...results.subarray(0, 2)], [0, -EPIPE]);
});

Deno.test({ name: "completions that do not fit the ring are waited for", ignore }, () => {
  using libc = new Libc();
  const open = openRing(libc, ENTRIES);
  const ring = new TestedRing(libc, open);
  const claim = claimCompletions(libc, open);
  for (let round = 0; round < 20; round++) {
    claim();
    assertEquals(exchange(libc, ring, WORDS), WORDS);
  }
});

/** Returns a function that makes the kernel find the completion ring full, until its reader next takes completions. */
function claimCompletions(libc: Libc, { fd, params }: OpenRing): () => void {
  const [head, tail, entriesAt] = [params[20]! / 4, params[21]! / 4, params[25]!];
  const mapped = libc.calls.mmap(null, entriesAt, 3, 1, fd, 0);
  const words = new Int32Array(Deno.UnsafePointerView.getArrayBuffer(mapped!, entriesAt));
  return () => void (words[head] = words[tail]! - params[1]!);
}

/** Runs of all entries: more than the engine needs to compile them, then those that are measured. */
const WARM_UP_RUNS = 20_000;
const MEASURED_RUNS = 20_000;
const ATTEMPTS = 5;

Deno.test({ name: "a run of a ring allocates nothing", ignore }, () => {
  using libc = new Libc();
  using pair = new Pair(libc);
  const ring = new TestedRing(libc);
  const results = new Int32Array(ENTRIES);
  const runs = (count: number): number => {
    const before = allocatedBytes();
    for (let run = 0; run < count; run++) {
      for (let index = 0; index < ENTRIES; index++) {
        ring.receive(index, pair.ends[1], 0, SLOT * index, SLOT);
      }
      ring.run(results);
    }
    return allocatedBytes() - before;
  };
  runs(WARM_UP_RUNS);
  const least = Math.min(...Array.from({ length: ATTEMPTS }, () => runs(MEASURED_RUNS)));
  assertLess(least / (MEASURED_RUNS * ENTRIES), 1);
});

type Enter = (
  number: number,
  fd: number,
  submit: number,
  complete: number,
  flags: number,
  sigset: null,
  size: number,
) => number;

Deno.test({
  name: "a kernel that takes few operations, or none, leaves the others untouched",
  ignore,
}, () => {
  let taken = ENTRIES;
  using _replaced = replaceCalls<{ io_uring_enter: Enter }>(({ io_uring_enter }) => ({
    io_uring_enter: (number, fd, submit, ...rest) =>
      taken === 0 ? -1 : io_uring_enter(number, fd, Math.min(submit, taken), ...rest),
  }));
  using libc = new Libc();
  using pair = new Pair(libc);
  const ring = new TestedRing(libc);
  const results = new Int32Array(ENTRIES);
  for (taken of [2, 0, 1, 0, ENTRIES]) {
    ring.bytes.set(bytesOf("abcd"));
    for (let index = 0; index < 4; index++) ring.send(index, pair.ends[0], 0, index, 1);
    const begun = Math.min(4, taken);
    assertEquals(ring.run(results), begun);
    const received = new Uint8Array(16);
    const count = libc.calls.recv(pair.ends[1], received, 16, 0x40);
    assertEquals(textOf(received.subarray(0, Math.max(0, count))), "abcd".slice(0, begun));
  }
});

const SETUP_ERRORS: readonly (readonly [errno: number, reason: RegExp])[] = [
  [ENOSYS, /the kernel has none \(ENOSYS\)/],
  [EPERM, /may not use it \(EPERM\).*io_uring_disabled.*seccomp/],
  [EINVAL, /older than Linux 5\.18 \(EINVAL\)/],
  [12, /io_uring_setup says ENOMEM/],
];

Deno.test({
  name: "the reason why there is no ring is told",
  ignore: !TRANSPORTS.includes("native"),
}, () => {
  for (const [errno, reason] of SETUP_ERRORS) {
    using _failing = failingSetup(errno);
    using libc = new Libc();
    const { message } = assertThrows(() => openRing(libc, ENTRIES), IoUringError);
    assertMatch(message, reason);
  }
});

type Setup = (number: number, entries: number, params: Uint32Array) => number;
type Register = (number: number, fd: number, operation: number, probe: Uint32Array) => number;

Deno.test(
  { name: "a kernel that knows fewer features is refused, and its ring closed", ignore },
  () => {
    const lacking: readonly (readonly [reason: RegExp, calls: Record<string, unknown>])[] = [
      [/the kernel lacks IORING_OP_SEND/, { io_uring_register: (() => 0) satisfies Register }],
      [/io_uring_register says /, { io_uring_register: (() => -1) satisfies Register }],
      [/io_uring_enter says /, { io_uring_enter: (() => -1) satisfies Enter }],
    ];
    for (const [reason, calls] of lacking) {
      using _replaced = replaceCalls(() => calls);
      using libc = new Libc();
      assertMatch(assertThrows(() => openRing(libc, ENTRIES), IoUringError).message, reason);
    }
    const opened: number[] = [];
    const closed: number[] = [];
    using _replaced = replaceCalls<{ io_uring_setup: Setup; close: (fd: number) => number }>(
      ({ io_uring_setup, close }) => ({
        io_uring_setup: (number, entries, params) => {
          opened.push(io_uring_setup(number, entries, params));
          params[5] = 0;
          return opened.at(-1)!;
        },
        close: (fd) => closed.push(fd) && close(fd),
      }),
    );
    using libc = new Libc();
    assertMatch(
      assertThrows(() => openRing(libc, ENTRIES), IoUringError).message,
      /lacks features: it has 0x0/,
    );
    assertEquals(closed, opened);
  },
);

Deno.test({
  name: "operations that fail, move few bytes or are not begun lose and double nothing",
  ignore,
  // A thread keeps the C library until it ends.
  sanitizeResources: false,
  async fn(): Promise<void> {
    await withSeed(drawSeed(), async (seed) => {
      let ring: FaultyRing | undefined;
      const { shared, thread: { settings } } = new ConversationSide([]);
      await serveInThisThread({
        shared,
        settings,
        hooks: {},
        makeIo: (libc, thread) => {
          ring = new FaultyRing(libc, openRing(libc, 64), randomFrom(seed));
          return new RingIo(ring, libc, thread, 1);
        },
        load: new URL("../../../support/load/exact_load.ts", import.meta.url),
        seed,
      });
      for (const [fault, count] of Object.entries(ring!.counts)) assertGreater(count, 0, fault);
    });
  },
});

Deno.test(
  { name: "with io_uring the server says so, and stats settings too", ignore },
  async () => {
    for (const ioUring of ["on", "auto", "off"] as const) {
      await using server = await ServerProcess.start({ io: "native", ioUring });
      const isUsed = ioUring !== "off";
      assertEquals(server.lines[0]!.includes("native transport with io_uring"), isUsed);
      using client = await server.connect();
      assertEquals(await client.stat("io_uring", "settings"), isUsed ? "on" : "off");
      await server.stop();
    }
  },
);

Deno.test({
  name: "without io_uring the server says why, once, and serves; -o io_uring=on refuses to start",
  ignore: !TRANSPORTS.includes("native"),
  async fn(): Promise<void> {
    const options = { io: "native", main: NO_IO_URING, permissions: ["--allow-all"] } as const;
    await using server = await ServerProcess.start(options);
    await server.line("io_uring is not used: this process may not use it (EPERM)");
    using client = await server.connect();
    await client.ping();
    assertEquals(await client.stat("io_uring", "settings"), "off");
    const { stderr } = await server.stop();
    assertEquals(stderr.match(/io_uring/g)?.length, 2, stderr);
    const refused = await runToEnd({
      ...options,
      args: ["--io", "native", "-p", "-1", "-o", "io_uring=on"],
    });
    assertEquals(refused.code, OS_ERROR, refused.stderr);
    assertMatch(refused.stderr, /cannot use io_uring: this process may not use it \(EPERM\)/);
  },
});

Deno.test("the portable transport refuses -o io_uring=on", async () => {
  const args = ["--io", "portable", "-p", "-1", "-o", "io_uring=on"];
  const { code, stderr } = await runToEnd({ args });
  assertEquals(code, OS_ERROR, stderr);
  assert(stderr.includes("cannot use io_uring: the portable transport has none"), stderr);
});
