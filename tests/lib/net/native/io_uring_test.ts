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
  ECONNRESET,
  EINTR,
  EINVAL,
  ENOMEM,
  ENOSYS,
  EPERM,
  EPIPE,
  Libc,
  MSG_DONTWAIT,
  SHUT_WR,
  SOCK_CLOEXEC,
  SOCK_STREAM,
} from "../../../../lib/net/native/libc.ts";
import { bindNative } from "../../../../lib/net/native/bind.ts";
import type { NativeConnection } from "../../../../lib/net/native/connection.ts";
import { NativeInbox } from "../../../../lib/net/native/inbox.ts";
import { RingIo } from "../../../../lib/net/native/round_io.ts";
import { resolveAddresses } from "../../../../lib/net/native/socket_address.ts";
import { allocatedBytes } from "../../../support/load/feed_loop.ts";
import { randomFrom } from "../../../support/random.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { failingSetup, type Setup } from "../../../support/servers/failing_setup.ts";
import {
  CompletionRing,
  type Enter,
  FaultyKernel,
  FaultyRing,
} from "../../../support/servers/faulty_ring.ts";
import { IO_URING_MISSING } from "../../../support/servers/io_uring.ts";
import { NATIVE_OPTIONS, serveInThisThread } from "../../../support/servers/native_in_process.ts";
import {
  failWith,
  type LibcErrors,
  replaceCalls,
} from "../../../support/servers/replaced_calls.ts";
import {
  path,
  runToEnd,
  ServerProcess,
  TRANSPORTS,
} from "../../../support/servers/server_process.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";
import { needs } from "../../../support/needs/needs.ts";

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

Deno.test({
  name: "a ring sends and receives for several sockets at once",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
  using libc = new Libc();
  const ring = new TestedRing(libc);
  // More rounds than entries, so that both rings wrap.
  for (let round = 0; round < 5 * ENTRIES; round++) {
    assertEquals(exchange(libc, ring, WORDS), WORDS);
  }
});

Deno.test({
  name: "an operation of a ring never waits, and tells its error",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
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

Deno.test({
  name: "completions that do not fit the ring are waited for",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
  using libc = new Libc();
  const open = openRing(libc, ENTRIES);
  const ring = new TestedRing(libc, open);
  const completions = new CompletionRing(libc, open);
  for (let round = 0; round < 20; round++) {
    completions.leaveRoom(round % (WORDS.length + 1));
    assertEquals(exchange(libc, ring, WORDS), WORDS);
  }
});

/** Runs of all entries: more than the engine needs to compile them. */
const WARM_UP_RUNS = 20_000;
/** Enough that the engine's own 200 KB do not matter. */
const MEASURED_RUNS = 100_000;
const ATTEMPTS = 5;

Deno.test({
  name: "a run of a ring allocates nothing",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
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

const EBADR = 53;

Deno.test({
  name: "a wait for completions goes on after a signal, and is given up when the kernel lost some",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
  let failures: number[] = [];
  using _replaced = replaceCalls<LibcErrors & { io_uring_enter: Enter }>((calls) => ({
    ...calls,
    io_uring_enter: (number, fd, submit, complete, ...rest) => {
      const errno = complete > 0 ? failures.shift() : undefined;
      return errno === undefined
        ? calls.io_uring_enter(number, fd, submit, complete, ...rest)
        : failWith(calls, errno);
    },
  }));
  using libc = new Libc();
  const open = openRing(libc, ENTRIES);
  const ring = new TestedRing(libc, open);
  const completions = new CompletionRing(libc, open);
  // The kernel looks for room only once for all places of the completion ring.
  const overflow = (): void => {
    while (failures.length > 0) {
      completions.leaveRoom(0);
      assertEquals(exchange(libc, ring, WORDS), WORDS);
    }
  };
  failures = [EINTR, EINTR, EINTR];
  overflow();
  failures = [EBADR];
  assertMatch(
    assertThrows(overflow, IoUringError).message,
    /completions are missing: io_uring_enter says errno 53/,
  );
});

Deno.test({
  name: "a kernel that takes few operations, or none, leaves the others untouched",
  ...needs("io_uring", IO_URING_MISSING === ""),
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
  [ENOMEM, /io_uring_setup says ENOMEM/],
];

Deno.test({
  name: "the reason why there is no ring is told",
  ...needs("native", TRANSPORTS.includes("native")),
}, () => {
  for (const [errno, reason] of SETUP_ERRORS) {
    using _failing = failingSetup(errno);
    using libc = new Libc();
    const { message } = assertThrows(() => openRing(libc, ENTRIES), IoUringError);
    assertMatch(message, reason);
  }
});

type Register = (
  number: number,
  fd: number,
  operation: number,
  probe: Uint32Array,
  count: number,
) => number;

/** Calls of a kernel that lacks something, and what the server says of it. */
const LACKING: readonly (readonly [
  reason: RegExp,
  replace: (calls: LibcErrors & RingCalls) => Partial<RingCalls>,
])[] = [
  ...[0, 1 << 0, 1 << 1].map((known) =>
    [
      new RegExp(`lacks features: it has 0x${known}$`),
      ({ io_uring_setup }: RingCalls) => ({
        io_uring_setup: (...args: Parameters<Setup>): number => {
          const fd = io_uring_setup(...args);
          args[2][5] = known;
          return fd;
        },
      }),
    ] as const
  ),
  ...(["IORING_OP_SEND", "IORING_OP_RECV"] as const).map((name, index) =>
    [
      new RegExp(`the kernel lacks ${name}`),
      ({ io_uring_register }: RingCalls) => ({
        io_uring_register: (...args: Parameters<Register>): number => {
          const result = io_uring_register(...args);
          args[3][4 + 2 * (26 + index)] = 0;
          return result;
        },
      }),
    ] as const
  ),
  [/io_uring_register says EINVAL/, (calls) => ({
    io_uring_register: () => failWith(calls, EINVAL),
  })],
  [/io_uring_enter says EPERM/, (calls) => ({ io_uring_enter: () => failWith(calls, EPERM) })],
  [/mmap says ENOMEM/, (calls) => ({
    mmap: () => Deno.UnsafePointer.create(BigInt.asUintN(64, BigInt(failWith(calls, ENOMEM)))),
  })],
  // It begins the receive, which then waits.
  [/does not heed MSG_DONTWAIT/, () => ({ io_uring_enter: (_number, _fd, submit) => submit })],
];

type RingCalls =
  & Readonly<Record<"io_uring_setup", Setup>>
  & Readonly<Record<"io_uring_register", Register>>
  & Readonly<Record<"io_uring_enter", Enter>>
  & { readonly mmap: () => Deno.PointerValue };

for (const [reason, replace] of LACKING) {
  Deno.test({
    name: `a kernel is refused, and its ring closed: ${reason.source}`,
    ...needs("io_uring", IO_URING_MISSING === ""),
  }, () => {
    using open = new LeftOpen();
    using _replaced = replaceCalls<LibcErrors & RingCalls>((calls) => ({
      ...calls,
      ...replace(calls),
    }));
    using libc = new Libc();
    assertMatch(assertThrows(() => openRing(libc, ENTRIES), IoUringError).message, reason);
    assertEquals([...open.fds], []);
  });
}

/** Records the rings and sockets that libraries of this thread open and leave open, until it is disposed. */
class LeftOpen implements Disposable {
  readonly fds = new Set<number>();
  readonly #replaced: Disposable;

  constructor() {
    const opened = (fd: number): number => {
      if (fd >= 0) this.fds.add(fd);
      return fd;
    };
    this.#replaced = replaceCalls<OpeningCalls>(({ io_uring_setup, socket, close }) => ({
      io_uring_setup: (...args) => opened(io_uring_setup(...args)),
      socket: (...args) => opened(socket(...args)),
      close: (fd) => {
        this.fds.delete(fd);
        return close(fd);
      },
    }));
  }

  [Symbol.dispose](): void {
    this.#replaced[Symbol.dispose]();
  }
}

type OpeningCalls = Readonly<Record<"io_uring_setup", Setup>> & {
  readonly socket: (domain: number, type: number, protocol: number) => number;
  readonly close: (fd: number) => number;
};

Deno.test({
  name: "rings for some threads only are closed, and the reason told",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
  using open = new LeftOpen();
  using _failing = failingSetup(ENOMEM, 2);
  const options = { ...NATIVE_OPTIONS, threads: 3, ioUring: "auto" } as const;
  const bound = bindNative([], options);
  assertEquals([...open.fds], []);
  assertEquals([bound.usesIoUring, bound.ioUringReason], [false, "io_uring_setup says ENOMEM"]);
  bound.close();
});

Deno.test({
  name: "a socket's error, which it reports only once, stands",
  ...needs("io_uring", IO_URING_MISSING === ""),
}, () => {
  using libc = new Libc();
  using pair = new Pair(libc);
  const [ours, theirs] = pair.ends;
  libc.calls.send(ours, new Uint8Array(1), 1, MSG_DONTWAIT);
  // With a byte unread, it resets the connection.
  libc.calls.close(theirs);
  const { thread } = new ConversationSide([]);
  const inbox = new NativeInbox(thread, 0);
  inbox.add({ fd: ours, tls: null } as NativeConnection);
  new RingIo(new IoUring(libc, openRing(libc, ENTRIES)), libc, thread, 1).receive(inbox);
  assertEquals(inbox.results[0], -ECONNRESET);
});

Deno.test(
  {
    name: "sockets that are ready together are read by the ring, without calls",
    ...needs("io_uring", IO_URING_MISSING === ""),
  },
  () => {
    using libc = new Libc();
    using first = new Pair(libc);
    using second = new Pair(libc);
    const { thread } = new ConversationSide([]);
    const inbox = new NativeInbox(thread, 0);
    for (const { ends: [ours, theirs] } of [first, second]) {
      libc.calls.send(theirs, bytesOf(`to ${ours}`), `to ${ours}`.length, MSG_DONTWAIT);
      inbox.add({ fd: ours, tls: null } as NativeConnection);
    }
    const ring = new IoUring(libc, openRing(libc, ENTRIES));
    const { recv } = libc.calls;
    let calls = 0;
    const counted = Object.assign(Object.create(libc), {
      calls: {
        ...libc.calls,
        recv: (...args: Parameters<typeof recv>) => (calls++, recv(...args)),
      },
    });
    new RingIo(ring, counted, thread).receive(inbox);
    const received = [0, 1].map((slot) =>
      textOf(inbox.bytes(slot).subarray(0, inbox.results[slot]!))
    );
    assertEquals(received, [first, second].map(({ ends }) => `to ${ends[0]}`));
    assertEquals(calls, 0);
  },
);

Deno.test({
  name: "operations that fail, move few bytes or are not begun lose and double nothing",
  ...needs("io_uring", IO_URING_MISSING === ""),
  // A thread keeps the C library until it ends.
  sanitizeResources: false,
  async fn(): Promise<void> {
    await withSeed(drawSeed(), async (seed) => {
      const random = randomFrom(seed);
      const { shared, thread: { settings } } = new ConversationSide([]);
      let ring: FaultyRing | undefined;
      let kernel: FaultyKernel | undefined;
      await serveInThisThread({
        shared,
        settings,
        hooks: {},
        makeIo: (whole, thread) => {
          // As few completions as possible, so that they soon do not fit.
          const open = openRing(whole, 64, 64);
          kernel = new FaultyKernel(random);
          using _kernel = kernel;
          const libc = new Libc();
          ring = new FaultyRing(libc, open, random);
          return new RingIo(ring, libc, thread, 1);
        },
        load: new URL("../../../support/load/exact_load.ts", import.meta.url),
        seed,
      });
      const counts = { ...ring!.counts, ...kernel!.counts };
      for (const [fault, count] of Object.entries(counts)) assertGreater(count, 0, fault);
    });
  },
});

Deno.test(
  {
    name: "with io_uring the server says so, and stats settings too",
    ...needs("io_uring", IO_URING_MISSING === ""),
  },
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

Deno.test(
  "without io_uring the server says why, once, and serves; -o io_uring=on refuses to start",
  needs("native", TRANSPORTS.includes("native")),
  async (): Promise<void> => {
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
);

Deno.test("the portable transport refuses -o io_uring=on", async () => {
  const args = ["--io", "portable", "-p", "-1", "-o", "io_uring=on"];
  const { code, stderr } = await runToEnd({ args });
  assertEquals(code, OS_ERROR, stderr);
  assert(stderr.includes("cannot use io_uring: the portable transport has none"), stderr);
});
