import { assert, assertEquals } from "@std/assert";
import { cacheServices } from "../../../../lib/net/cache_service.ts";
import { NativeConnection } from "../../../../lib/net/native/connection.ts";
import type { Libc } from "../../../../lib/net/native/libc.ts";
import { EAGAIN, ECONNRESET, EPROTO } from "../../../../lib/net/native/libc.ts";
import { ReceiveLoop } from "../../../../lib/net/native/receive_loop.ts";
import { CallIo } from "../../../../lib/net/native/round_io.ts";
import type { NativeSender } from "../../../../lib/net/native/sender.ts";
import type { TlsStream } from "../../../../lib/net/native/tls/stream.ts";
import { ValueIo } from "../../../../lib/net/native/value_io.ts";
import { ConversationState } from "../../../../protocol/conversation.ts";
import { ConnectionKind } from "../../../../store/connections.ts";
import { STAT } from "../../../../store/stats.ts";
import { randomFrom } from "../../../support/random.ts";
import { memoryAt } from "../../../support/servers/memory_at.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

const READ_BYTES = 16 * 1024;
const READS_MAX = 8;
/** Words of `struct msghdr` and `struct iovec`. */
const [VECTORS_WORD, COUNT_WORD, VECTOR_WORDS] = [4, 6, 4];
const TWO_32 = 2 ** 32;

function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** The memory that a `struct msghdr` refers to. */
function piecesOf(header: Uint32Array): Uint8Array[] {
  const address = header[VECTORS_WORD + 1]! * TWO_32 + header[VECTORS_WORD]!;
  const count = header[COUNT_WORD]!;
  const words = new Uint32Array(memoryAt(address, 4 * VECTOR_WORDS * count).buffer);
  return Array.from({ length: count }, (_, index) => {
    const word = index * VECTOR_WORDS;
    return memoryAt(words[word + 1]! * TWO_32 + words[word]!, words[word + 2]!);
  });
}

/** A socket whose peer sends pieces, and a connection of the native transport on it. */
class Wire implements Disposable {
  readonly side = new ConversationSide(["-m", "16"]);
  /** The result of each read that has bytes, then `end`. */
  incoming: Uint8Array[] = [];
  end = -EAGAIN;
  /** Bytes that the kernel takes of a reply. */
  sent = "";
  received = "";
  reads = 0;
  readonly closed: string[] = [];
  later = 0;
  /** Reads, and calls of the sender, in their order. */
  readonly done: string[] = [];
  readonly connection: NativeConnection;
  readonly valueIo: ValueIo;
  /** Whether bytes are left of the record that was read last. */
  #decrypted = false;
  readonly loop: ReceiveLoop;

  constructor() {
    const { thread } = this.side;
    const libc = {
      resultOf: (returned: number) => returned,
      calls: {
        sendmsg: (_fd: number, header: Uint32Array) => {
          const bytes = concat(piecesOf(header));
          this.sent += textOf(bytes);
          return bytes.length;
        },
        recvmsg: (_fd: number, header: Uint32Array) => this.#read(piecesOf(header)),
        recv: (_fd: number, bytes: Uint8Array, length: number) =>
          this.#read([bytes.subarray(0, length)]),
        memcpy: (to: bigint, from: bigint, length: number) =>
          memoryAt(to, length).set(memoryAt(from, length)),
      },
    } as unknown as Libc;
    const kind = ConnectionKind.TCP;
    const { auto: service } = cacheServices(thread, 0, () => {});
    const conversation = service.open(kind, "peer", "listener")!;
    this.connection = new NativeConnection(3, 0, kind, service, conversation);
    this.valueIo = new ValueIo(thread, libc);
    const sender = {
      sendQueued: () => {
        this.done.push("send");
        this.connection.queued = false;
      },
      stall: (_: NativeConnection, unsent: Uint8Array) => this.done.push(`stall ${unsent.length}`),
    } as unknown as NativeSender;
    this.loop = new ReceiveLoop(thread, new CallIo(libc), this.valueIo, sender, {
      converse: (connection, start, end) => this.#converse(connection, start, end),
      finishLater: () => this.later++,
      close: (_, reason) => this.closed.push(reason),
    });
  }

  #read(targets: readonly Uint8Array[]): number {
    this.reads++;
    this.done.push("read");
    const piece = this.incoming.shift();
    if (piece === undefined) return this.end;
    let at = 0;
    for (const target of targets) {
      const part = piece.subarray(at, at + target.length);
      target.set(part);
      at += part.length;
    }
    if (at < piece.length) this.incoming.unshift(piece.subarray(at));
    return at;
  }

  /** A TLS layer over the incoming bytes: a read returns those of one record at most, whatever fits. */
  get tls(): TlsStream {
    const hasBuffered = (): boolean => this.incoming.length > 0;
    const hasDecrypted = (): boolean => this.#decrypted;
    const read = (bytes: Uint8Array): number => {
      const record = this.incoming[0]?.length ?? 0;
      const received = this.#read([bytes]);
      this.#decrypted = received > 0 && received < record;
      return received;
    };
    return {
      get hasBuffered(): boolean {
        return hasBuffered();
      },
      get hasDecrypted(): boolean {
        return hasDecrypted();
      },
      read: (bytes: Uint8Array, length: number) => read(bytes.subarray(0, length)),
      readInto: (address: number, length: number) => read(memoryAt(address, length)),
    } as unknown as TlsStream;
  }

  #converse(connection: NativeConnection, start: number, end: number): void {
    const { input, reply } = this.side.thread;
    for (let isOver = false; !isOver;) {
      reply.reset();
      start = connection.conversation.feed(start, end);
      this.received += textOf(reply.region.bytes.subarray(0, reply.length));
      isOver = connection.conversation.state !== ConversationState.UNFINISHED;
    }
    if (start < end) connection.pending = input.bytes.slice(start, end);
  }

  /** Feeds a request; its replies stay in the reply buffer, with values that the store holds. */
  feed(request: string): void {
    const { input, reply } = this.side.thread;
    reply.reset();
    reply.valueSegments.enabled = true;
    const bytes = bytesOf(request);
    input.bytes.set(bytes);
    assertEquals(this.connection.conversation.feed(0, bytes.length), bytes.length);
  }

  receive(...pieces: readonly Uint8Array[]): void {
    this.incoming.push(...pieces);
    this.loop.receive(this.connection);
  }

  /** Lets go of the values of a reply. */
  release(): void {
    const { cache, reply } = this.side.thread;
    cache.enter();
    reply.truncate(cache, 0);
    cache.leave();
    reply.valueSegments.enabled = false;
  }

  [Symbol.dispose](): void {
    this.side[Symbol.dispose]();
  }
}

const VALUE_A = Array.from({ length: 40_000 }, (_, at) => String.fromCharCode(at % 251)).join("");
const VALUE_B = Array.from({ length: 70_001 }, (_, at) => String.fromCharCode(at % 241)).join("");
const REPLIES = `VALUE a 0 40000\r\n${VALUE_A}\r\nVALUE s 0 1\r\nx\r\n` +
  `VALUE b 0 70001\r\n${VALUE_B}\r\nEND\r\n`;

/** A connection whose replies to a get of two long values and a short one are to be sent. */
function withReplies(use: (wire: Wire) => void): void {
  using wire = new Wire();
  const peer = wire.side.connect();
  peer.ask(
    `set a 0 0 40000\r\n${VALUE_A}\r\nset s 0 0 1\r\nx\r\nset b 0 0 70001\r\n${VALUE_B}\r\n`,
  );
  wire.feed("get a s b\r\n");
  assertEquals(wire.side.thread.reply.valueSegments.count, 2);
  use(wire);
  wire.release();
}

Deno.test("long values are sent from the store, between the bytes around them", () => {
  withReplies((wire) => {
    assertEquals(wire.valueIo.sendReply(wire.connection), REPLIES.length);
    assertEquals(wire.sent === REPLIES, true);
  });
});

Deno.test("the unsent rest of a reply is what the kernel did not take, wherever it stopped", () => {
  withReplies((wire) => {
    const headA = "VALUE a 0 40000\r\n".length;
    const headB = REPLIES.indexOf("VALUE b") + "VALUE b 0 70001\r\n".length;
    const bounds = [headA, headA + 40_000, headB - 20, headB, headB + 70_001, REPLIES.length - 1];
    for (const bound of [1, ...bounds]) {
      for (const sent of [bound - 1, bound, bound + 1]) {
        const rest = textOf(wire.valueIo.unsentReply(sent));
        assertEquals(rest === REPLIES.slice(sent), true, `after ${sent} bytes`);
      }
    }
  });
});

Deno.test("the unsent rest of a reply leaves out the batches in front of it", () => {
  withReplies((wire) => {
    const { reply } = wire.side.thread;
    reply.start = 6;
    assertEquals(textOf(wire.valueIo.unsentReply(0)) === REPLIES.slice(6), true);
    assertEquals(wire.valueIo.sendReply(wire.connection), REPLIES.length - 6);
    assertEquals(wire.sent === REPLIES.slice(6), true);
  });
});

Deno.test("over TLS replies go as full records, and what was taken is counted at every stop", () => {
  const whole = REPLIES.length;
  for (const room of [whole, 0, 1, READ_BYTES, READ_BYTES + 1, 3 * READ_BYTES, whole - 1]) {
    withReplies((wire) => {
      const records: number[] = [];
      let left = room;
      const take = (bytes: Uint8Array): number => {
        const taken = Math.min(left, bytes.length);
        left -= taken;
        records.push(bytes.length);
        wire.sent += textOf(bytes.subarray(0, taken));
        return taken;
      };
      const tls = {
        write: (bytes: Uint8Array, length: number) => take(bytes.subarray(0, length)),
        writeFrom: (address: number, length: number) => take(memoryAt(address, length)),
      } as unknown as TlsStream;
      wire.connection.tls = tls;
      assertEquals(wire.valueIo.sendReply(wire.connection), room);
      assertEquals(wire.sent === REPLIES.slice(0, room), true, `${room}`);
      const full = records.slice(0, -1);
      assertEquals(full, full.map(() => READ_BYTES));
      wire.connection.tls = null;
    });
  }
});

Deno.test("over TLS a broken connection is no number of bytes, after some records too", () => {
  for (const records of [0, 2]) {
    withReplies((wire) => {
      let left = records;
      const take = (length: number): number => left-- > 0 ? length : -ECONNRESET;
      wire.connection.tls = {
        write: (_: Uint8Array, length: number) => take(length),
        writeFrom: (_: number, length: number) => take(length),
      } as unknown as TlsStream;
      assertEquals(wire.valueIo.sendReply(wire.connection), -ECONNRESET);
      wire.connection.tls = null;
    });
  }
});

/** Cuts bytes at random. */
function cut(bytes: Uint8Array, random: () => number, most: number): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = 1 + Math.floor(random() * most);
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return pieces;
}

Deno.test("a conversation with long values says the same, however the socket gives its bytes", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const set = (key: string, value: string): string =>
      `set ${key} 7 0 ${value.length}\r\n${value}\r\n`;
    const requests = set("a", VALUE_A) + set("b", VALUE_B) + set("s", "x") +
      "append a 0 0 3\r\nend\r\n" + set("a2", VALUE_B) + "mn\r\n".repeat(9);
    const replies = "STORED\r\n".repeat(5) + "MN\r\n".repeat(9);
    const lengths = [1_000_000, 100_000, 40_000, 17_000, 5000, 700];
    for (const [most, isTls] of lengths.flatMap((most) => [[most, false], [most, true]] as const)) {
      using wire = new Wire();
      if (isTls) wire.connection.tls = wire.tls;
      const pieces = cut(bytesOf(requests), random, isTls ? Math.min(most, READ_BYTES) : most);
      for (const piece of pieces) {
        wire.receive(piece);
        for (let rounds = 0; wire.incoming.length > 0; rounds++) {
          assert(rounds < 100, "bytes that nobody reads");
          wire.receive();
        }
      }
      assertEquals(wire.received, replies, `pieces of ${most}, TLS ${isTls}`);
      const peer = wire.side.connect();
      const valuesOf = (key: string): string =>
        peer.ask(`mg ${key} f v\r\n`).replace(/^.*\r\n/, "");
      assertEquals(valuesOf("a") === `${VALUE_A}end\r\n`, true);
      assertEquals(valuesOf("b") === `${VALUE_B}\r\n`, true);
      assertEquals(valuesOf("a2") === `${VALUE_B}\r\n`, true);
      assertEquals(peer.ask("mg b f\r\n"), "HD f7\r\n");
      const read = wire.side.thread.memory.stats[STAT.bytes_read]!;
      const asked = requests.length;
      assertEquals(read >= asked && read < asked + 200, true, `bytes_read ${read} of ${asked}`);
      assertEquals(wire.closed, []);
    }
  }));

Deno.test("a short read ends a round, and so do eight of a long value, and the end of a request", () => {
  const full = "mn\r\n".repeat(READ_BYTES / 4);
  const cases:
    readonly (readonly [requests: string, pieces: number, reads: number, later: number])[] = [
      ["mn\r\n", 1, 1, 0],
      [full, 2, 1, 1],
      [full.slice(4), 2, 1, 0],
    ];
  for (const [requests, pieces, reads, later] of cases) {
    using wire = new Wire();
    wire.receive(...Array.from({ length: pieces }, () => bytesOf(requests)));
    assertEquals([wire.reads, wire.later], [reads, later], requests.slice(-20));
  }
  for (const [bytes, reads, later] of [[40_000, READS_MAX, 1], [30_000, 1, 0]] as const) {
    using wire = new Wire();
    wire.receive(bytesOf(`set a 0 0 1000000\r\n${"v".repeat(2000)}`));
    wire.reads = 0;
    wire.receive(...Array.from({ length: 20 }, () => new Uint8Array(bytes)));
    assertEquals([wire.reads, wire.later], [reads, later], `${bytes}`);
    wire.connection.conversation.end();
  }
});

Deno.test("a read without bytes waits, or closes the connection for its reason", () => {
  const cases: readonly (readonly [end: number, closed: string[]])[] = [
    [0, ["normal"]],
    [-EAGAIN, []],
    [-4, []],
    [-ECONNRESET, ["error"]],
    [-EPROTO, ["error"]],
  ];
  for (const [end, closed] of cases) {
    for (const start of ["", "set a 0 0 100000\r\n"]) {
      using wire = new Wire();
      if (start !== "") wire.receive(bytesOf(start));
      wire.end = end;
      wire.receive();
      assertEquals(wire.closed, closed, `${end}`);
      assertEquals(wire.side.thread.memory.stats[STAT.ssl_proto_errors], 0);
      wire.connection.conversation.end();
    }
  }
});

Deno.test("reads without bytes leave a value where it was", () => {
  using wire = new Wire();
  wire.receive(bytesOf(`set a 0 0 100000\r\n${"v".repeat(2000)}`));
  for (const end of [-EAGAIN, -4, -EAGAIN]) {
    wire.end = end;
    wire.receive();
  }
  wire.receive(bytesOf(`${"w".repeat(98_000)}\r\n`));
  assertEquals(wire.received, "STORED\r\n");
  const reply = wire.side.connect().ask("get a\r\n");
  const value = "v".repeat(2000) + "w".repeat(98_000);
  assertEquals(reply === `VALUE a 0 100000\r\n${value}\r\nEND\r\n`, true);
});

Deno.test("a connection is read into a slot after short reads and the end of a long value", () => {
  using wire = new Wire();
  const shortAfter = (...pieces: string[]): boolean => {
    wire.receive(...pieces.map(bytesOf));
    return wire.connection.readsAreShort;
  };
  assertEquals(shortAfter("mn\r\n".repeat(127)), true);
  assertEquals(shortAfter("mn\r\n".repeat(128)), false);
  assertEquals(shortAfter("mn\r\nm"), true);
  assertEquals(shortAfter("n\r"), false, "bytes of the last read were left");
  assertEquals(shortAfter("\n"), false);
  assertEquals(shortAfter("set a 0 0 100000\r\n"), true);
  assertEquals(shortAfter("v".repeat(99_999)), false);
  assertEquals(shortAfter("v\r\n"), true);
  assertEquals(wire.received.endsWith("STORED\r\n"), true);
});

Deno.test("queued replies are sent before the next read, and nothing is read that must not be", () => {
  using wire = new Wire();
  wire.connection.queued = true;
  wire.receive(bytesOf("mn\r\n"));
  assertEquals(wire.done, ["send", "read"]);
  wire.connection.waiting = true;
  wire.receive(bytesOf("mn\r\n"));
  assertEquals(wire.done, ["send", "read"]);
});

Deno.test("bytes of a value and of requests show that a peer is there", () => {
  using wire = new Wire();
  const { connections } = wire.side.thread;
  const seen = (...pieces: Uint8Array[]): number => {
    wire.side.pause(10);
    const before = connections.seenAtSec(wire.connection.id);
    wire.receive(...pieces);
    return connections.seenAtSec(wire.connection.id) - before;
  };
  seen(bytesOf("mn\r\n"));
  assertEquals(seen(bytesOf(`set a 0 0 100000\r\n${"v".repeat(2000)}`)), 10);
  assertEquals(seen(new Uint8Array(49_000)), 10);
  assertEquals(seen(), 0);
  assertEquals(seen(new Uint8Array(49_000)), 20);
  wire.connection.conversation.end();
});

Deno.test("requests behind a long value are read in the same round if they fill a read", () => {
  const value = "v".repeat(20_000);
  const start = `set a 0 0 30000\r\n${"v".repeat(10_000)}`;
  for (const [more, reads] of [[-1, 1], [0, 2], [4, 2]] as const) {
    using wire = new Wire();
    wire.receive(bytesOf(start));
    wire.reads = 0;
    const behind = `\r\n${"mn\r\n".repeat(READ_BYTES / 4)}`.slice(0, READ_BYTES + more);
    wire.receive(bytesOf(value + behind));
    assertEquals(wire.reads, reads, `${more} more than a read`);
    assertEquals(wire.received.startsWith("STORED\r\nMN\r\n"), true);
  }
});

Deno.test("a TLS layer that must write waits for a writable socket, once; one with bytes is read later", () => {
  using wire = new Wire();
  const { connection, loop } = wire;
  const tls = { wantsWrite: true, hasMore: false, hasBuffered: true };
  connection.tls = tls as unknown as TlsStream;
  loop.failed(connection, -EAGAIN);
  loop.failed(connection, -EAGAIN);
  assertEquals([wire.done, tls.wantsWrite, wire.later], [["stall 0"], false, 0]);
  loop.failed(connection, -EPROTO);
  loop.failed(connection, -ECONNRESET);
  assertEquals(wire.side.thread.memory.stats[STAT.ssl_proto_errors], 1);
  loop.readBuffered(connection);
  assertEquals(wire.later, 1);
  connection.waiting = true;
  loop.readBuffered(connection);
  assertEquals(wire.later, 1);
  connection.waiting = false;
  tls.hasBuffered = false;
  loop.readBuffered(connection);
  connection.tls = null;
  loop.readBuffered(connection);
  assertEquals(wire.later, 1);
});

Deno.test("bytes of a socket about to close are dropped until a read is short, up to a bound", () => {
  for (const [length, reads] of [[0, 1], [READ_BYTES - 1, 1], [READ_BYTES, 2]] as const) {
    using wire = new Wire();
    wire.incoming.push(new Uint8Array(length), new Uint8Array(1));
    wire.loop.discard(3);
    assertEquals(wire.reads, reads);
  }
  using wire = new Wire();
  wire.incoming.push(new Uint8Array(20 * READ_BYTES));
  wire.loop.discard(3);
  assertEquals([wire.reads, wire.received], [READS_MAX, ""]);
});
