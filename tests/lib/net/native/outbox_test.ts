import { assertEquals } from "@std/assert";
import type { NativeConnection } from "../../../../lib/net/native/connection.ts";
import { type Epoll, EPOLLOUT } from "../../../../lib/net/native/epoll.ts";
import { NativeInbox, SLOT_BYTES, SLOTS } from "../../../../lib/net/native/inbox.ts";
import { EAGAIN, ECONNRESET, EINTR } from "../../../../lib/net/native/libc.ts";
import { NativeOutbox, REPLIES_MAX } from "../../../../lib/net/native/outbox.ts";
import type { CallIo } from "../../../../lib/net/native/round_io.ts";
import { NativeSender } from "../../../../lib/net/native/sender.ts";
import type { ValueIo } from "../../../../lib/net/native/value_io.ts";
import type { TransportThread } from "../../../../lib/net/worker_transport.ts";
import { ReplyBuffer } from "../../../../protocol/reply/reply_buffer.ts";
import { ByteRegion } from "../../../../store/base/bytes.ts";
import { clockSec } from "../../../../store/clock.ts";
import { Activity } from "../../../../store/connections.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

const QUEUED_BYTES_MAX = 64 * 1024;
const UNITS_MAX = 4096;

/** Appends a reply to the buffer, as a conversation does. */
function put(reply: ReplyBuffer, text: string): void {
  reply.region.bytes.set(bytesOf(text), reply.length);
  reply.length += text.length;
}

function textAt(outbox: NativeOutbox, index: number): string {
  return textOf(outbox.bytes(index).subarray(0, outbox.length(index)));
}

Deno.test("queued replies keep their bytes and their connections, until the queue is emptied", () => {
  const reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(2 * QUEUED_BYTES_MAX)));
  const outbox = new NativeOutbox(reply);
  const texts = ["OK\r\n", "a".repeat(63), "b".repeat(64), "c".repeat(65), "d".repeat(1000)];
  for (let round = 0; round < 2; round++) {
    const connections = texts.map(() => ({ queued: false }) as NativeConnection);
    texts.forEach((text, index) => {
      outbox.begin();
      put(reply, text);
      outbox.add(connections[index]!);
    });
    assertEquals(outbox.count, texts.length);
    assertEquals(connections.map(({ queued }) => queued), texts.map(() => true));
    texts.forEach((text, index) => {
      assertEquals(textAt(outbox, index), text);
      assertEquals(outbox.connection(index) === connections[index], true);
      const start = outbox.start(index);
      assertEquals(textOf(reply.region.bytes.subarray(start, start + text.length)), text);
    });
    outbox.clear();
    assertEquals([outbox.count, reply.length, outbox.full], [0, 0, false]);
    assertEquals(connections.map(({ queued }) => queued), texts.map(() => false));
  }
});

Deno.test("a queue is full after so many replies, bytes or units of work that replies wait for", () => {
  const reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(2 * QUEUED_BYTES_MAX)));
  const outbox = new NativeOutbox(reply);
  const add = (length: number): void => {
    outbox.begin();
    reply.length += length;
    outbox.add({} as NativeConnection);
  };
  for (let count = 0; count < REPLIES_MAX; count++) {
    assertEquals(outbox.full, false);
    add(1);
  }
  assertEquals(outbox.full, true);
  outbox.clear();
  add(QUEUED_BYTES_MAX);
  assertEquals(outbox.full, false);
  add(1);
  assertEquals([outbox.full, outbox.bytes(1).byteOffset], [true, QUEUED_BYTES_MAX]);
  outbox.clear();
  outbox.charge(2 * UNITS_MAX);
  add(1);
  assertEquals(outbox.full, false, "no reply has waited for that work");
  outbox.charge(UNITS_MAX);
  assertEquals(outbox.full, false);
  outbox.charge(1);
  assertEquals(outbox.full, true);
  outbox.clear();
  add(1);
  assertEquals(outbox.full, false);
});

Deno.test("each slot of an inbox has bytes of its own in the thread's input", () => {
  const at = 100;
  const bytes = new Uint8Array(at + SLOTS * SLOT_BYTES + 50);
  const inbox = new NativeInbox({ input: { bytes } } as unknown as TransportThread, at);
  const connections = Array.from({ length: SLOTS }, () => ({}) as NativeConnection);
  for (let round = 0; round < 2; round++) {
    connections.forEach((connection, index) => {
      assertEquals([inbox.count, inbox.full], [index, false]);
      inbox.add(connection);
      assertEquals(inbox.connection(index) === connection, true);
      inbox.bytes(index).fill(index + 1);
      assertEquals(inbox.bytes(index).length, SLOT_BYTES);
    });
    assertEquals(inbox.full, true);
    inbox.clear();
  }
  const expected = new Uint8Array(bytes.length);
  connections.forEach((_, index) => {
    assertEquals(inbox.start(index), at + index * SLOT_BYTES);
    expected.fill(index + 1, at + index * SLOT_BYTES, at + (index + 1) * SLOT_BYTES);
  });
  assertEquals(bytes.every((byte, index) => byte === expected[index]), true);
});

/** A sender whose sends have the results that a test sets. */
class Sending {
  readonly side = new ConversationSide();
  readonly log: string[] = [];
  /** The results of queued replies, one after the other; then all of each is taken. */
  results: number[] = [];
  /** The result of a reply with long values. */
  valueResult = 0;
  readonly sender: NativeSender;

  constructor() {
    const thread = this.side.thread as unknown as TransportThread;
    const io = {
      send: (outbox: NativeOutbox) => {
        for (let index = 0; index < outbox.count; index++) {
          this.log.push(`send ${textAt(outbox, index)}`);
          outbox.results[index] = this.results.shift() ?? outbox.length(index);
        }
      },
      write: () => -ECONNRESET,
    } as unknown as CallIo;
    const epoll = {
      watch: ({ fd }: NativeConnection, events: number) => this.log.push(`watch ${fd} ${events}`),
    } as unknown as Epoll;
    const valueIo = {
      sendReply: () => this.valueResult,
      unsentReply: (sent: number) => bytesOf(`rest after ${sent}`),
    } as unknown as ValueIo;
    this.sender = new NativeSender(thread, io, epoll, valueIo, io, (connection) => {
      connection.closed = true;
      this.log.push(`broken ${connection.fd}`);
    });
  }

  connection(fd: number): NativeConnection {
    return {
      fd,
      id: fd,
      unsent: null,
      closed: false,
      queued: false,
      progressAtSec: -1,
      service: {
        connections: {
          setActivity: (id: number, activity: Activity) => this.log.push(`${id} does ${activity}`),
        },
      },
    } as unknown as NativeConnection;
  }

  queue(connection: NativeConnection, text: string): void {
    this.sender.begin();
    put(this.side.thread.reply, text);
    this.sender.queue(connection);
  }
}

Deno.test("of queued replies each rest waits for its own socket, and a broken connection is closed", () => {
  const side = new Sending();
  const { sender, log } = side;
  sender.sendQueued();
  const connections = [1, 2, 3, 4, 5, 6].map((fd) => side.connection(fd));
  const [whole, part, full, signal, broken, last] = connections;
  connections.forEach((connection) => side.queue(connection, `reply ${connection.fd}`));
  side.results = [7, 3, -EAGAIN, -EINTR, -ECONNRESET, 6];
  sender.sendQueued();
  assertEquals(log.splice(0, 6), connections.map(({ fd }) => `send reply ${fd}`));
  const stall = (
    fd: number,
  ): string[] => [`${fd} does ${Activity.WRITING}`, `watch ${fd} ${EPOLLOUT}`];
  assertEquals(log, [...stall(2), ...stall(3), ...stall(4), "broken 5", ...stall(6)]);
  const unsent = connections.map(({ unsent }) => unsent === null ? null : textOf(unsent));
  assertEquals(unsent, [null, "ly 2", "reply 3", "reply 4", null, "6"]);
  assertEquals([...sender.stalled], [part!, full!, signal!, last!]);
  const nowSec = clockSec(side.side.thread.memory);
  assertEquals(part!.progressAtSec, nowSec);
  assertEquals([whole!.closed, broken!.closed], [false, true]);
  assertEquals(connections.map(({ queued }) => queued), connections.map(() => false));
  log.length = 0;
  side.queue(whole!, "again");
  sender.sendQueued();
  assertEquals(log, ["send again"]);
});

Deno.test("a reply that is sent at once goes behind the queued ones, and tells whether all is sent", () => {
  for (
    const [result, isSent, closed] of [[4, true, false], [3, false, false], [
      -ECONNRESET,
      false,
      true,
    ]] as const
  ) {
    const side = new Sending();
    const [first, second] = [side.connection(1), side.connection(2)];
    side.queue(first, "first");
    side.sender.begin();
    put(side.side.thread.reply, "last");
    side.results = [5, result];
    assertEquals(side.sender.sendNow(second), isSent);
    assertEquals(side.log.slice(0, 2), ["send first", "send last"]);
    assertEquals([second.closed, second.unsent === null], [closed, isSent || closed]);
  }
});

Deno.test("a full queue is sent before the next batch is written", () => {
  const side = new Sending();
  for (let count = 0; count <= REPLIES_MAX; count++) side.queue(side.connection(count), "x");
  assertEquals(side.log.length, REPLIES_MAX);
  side.sender.charge(UNITS_MAX + 1);
  side.sender.begin();
  assertEquals(side.log.length, REPLIES_MAX + 1);
});

Deno.test("values are let go whatever the kernel took of them", () => {
  for (
    const [result, isSent, rest] of [
      ...[[0, false, "rest after 0"], [-EAGAIN, false, "rest after 0"]] as const,
      ...[[9, false, "rest after 9"], [Infinity, true, null], [-ECONNRESET, false, null]] as const,
    ]
  ) {
    const side = new Sending();
    const { side: store } = side;
    const { reply, input } = store.thread;
    store.connect().ask(`set k 0 0 100000\r\n${"v".repeat(100_000)}\r\n`);
    reply.valueSegments.enabled = true;
    side.sender.begin();
    const conversation = store.protocols.open(store.connect().owner, { protocol: "auto" });
    input.bytes.set(bytesOf("get k\r\n"));
    conversation.feed(0, 7);
    assertEquals(reply.valueSegments.count, 1);
    const length = "VALUE k 0 100000\r\n\r\nEND\r\n".length + 100_000;
    side.valueResult = Math.min(result, length);
    const connection = side.connection(1);
    assertEquals(side.sender.sendNow(connection), isSent);
    assertEquals(reply.valueSegments.count, 0);
    assertEquals(connection.unsent === null ? null : textOf(connection.unsent), rest);
    assertEquals(side.sender.stalled.has(connection), rest !== null);
    assertEquals(connection.closed, result === -ECONNRESET);
    assertEquals(reply.length, reply.start);
    conversation.end();
    store.check();
  }
});

Deno.test("a rest without bytes is sent when the socket is writable, a broken one is not", () => {
  const side = new Sending();
  const connection = side.connection(1);
  side.sender.stall(connection, new Uint8Array(0));
  assertEquals(side.sender.sendRest(connection), true);
  assertEquals([connection.unsent, side.sender.stalled.size], [null, 0]);
  side.sender.stall(connection, bytesOf("rest"));
  side.log.length = 0;
  assertEquals(side.sender.sendRest(connection), false);
  assertEquals([side.log, connection.closed], [["broken 1"], true]);
});
