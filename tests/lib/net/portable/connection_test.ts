import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { cacheServices } from "../../../../lib/net/cache_service.ts";
import { ConnectionBuffers, PortableConnection } from "../../../../lib/net/portable/connection.ts";
import { ConnectionKind } from "../../../../store/connections.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { until } from "../../../support/servers/server_process.ts";
import { RowsSide } from "../../../support/sessions/rows_side.ts";
import type { RowRequest } from "../../../../store/row_cache.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

/** Makes a connection of that socket, whose conversation is fed to the store of `side`. */
function connectionOf(
  socket: Deno.Conn,
  side: ConversationSide,
  buffers: ConnectionBuffers,
): PortableConnection {
  const { thread } = side;
  const kind = ConnectionKind.TCP;
  const { auto: service } = cacheServices(thread, 0, () => {});
  const conversation = service.open(kind, "peer", "listener")!;
  return new PortableConnection(socket, kind, thread, service, conversation, buffers);
}

const CLIENTS = 60;
/** Free reply buffers that a thread keeps at most. */
const KEPT_MAX = 8;

/** A socket whose peer sends one request, and reads no reply until `read` is called. */
class SlowPeer {
  read: () => void = () => {};
  received = 0;
  #request: Uint8Array | null;
  readonly #reads = new Promise<void>((resolve) => this.read = resolve);

  constructor(request: string) {
    this.#request = bytesOf(request);
  }

  get socket(): Deno.Conn {
    return {
      read: (buffer: Uint8Array): Promise<number | null> => {
        const request = this.#request;
        this.#request = null;
        if (request !== null) buffer.set(request);
        return Promise.resolve(request?.length ?? null);
      },
      write: async (bytes: Uint8Array): Promise<number> => {
        await this.#reads;
        this.received += bytes.length;
        return bytes.length;
      },
      close: () => {},
    } as unknown as Deno.Conn;
  }
}

Deno.test("buffers of clients that did not read are given back when they have read", async () => {
  const side = new ConversationSide(["-c", "200"]);
  side.connect().ask(`set k 0 0 200000\r\n${"v".repeat(200_000)}\r\n`);
  const buffers = new ConnectionBuffers();
  const peers = Array.from({ length: CLIENTS }, () => new SlowPeer("get k\r\nget k\r\n"));
  const ends = peers.map(({ socket }) => connectionOf(socket, side, buffers).serve(() => {}));
  await until(() => buffers.largeReplies.memoryCount === CLIENTS);
  for (const peer of peers) peer.read();
  await Promise.all(ends);
  const length = "VALUE k 0 200000\r\n".length + 200_000 + "\r\nEND\r\n".length;
  for (const peer of peers) assertEquals(peer.received, 2 * length);
  assertLessOrEqual(buffers.largeReplies.memoryCount, KEPT_MAX);
});

Deno.test("a buffer whose write failed does not count as kept", async () => {
  const side = new ConversationSide();
  side.connect().ask(`set k 0 0 200000\r\n${"v".repeat(200_000)}\r\n`);
  const buffers = new ConnectionBuffers();
  const { socket } = new SlowPeer("get k\r\n");
  socket.write = () => Promise.reject(new Deno.errors.ConnectionReset());
  await connectionOf(socket, side, buffers).serve(() => {});
  assertEquals(buffers.largeReplies.memoryCount, 0);
});

Deno.test("a buffer that a read may still write to is not lent again", async () => {
  const side = new ConversationSide();
  side.connect().ask("set k 0 0 1\r\n1\r\nlock k\r\n");
  const buffers = new ConnectionBuffers();
  const [pool] = buffers.reads;
  const { socket } = new SlowPeer("lock k 60000\r\n");
  const { promise: closed, resolve: close } = Promise.withResolvers<null>();
  const read = socket.read.bind(socket);
  let reads = 0;
  socket.read = (buffer) => reads++ === 0 ? read(buffer) : closed;
  const ended = connectionOf(socket, side, buffers).serve(() => {});
  await until(() => reads === 2);
  const kept = pool!.memoryCount;
  close(null);
  await ended;
  assertEquals(pool!.memoryCount, kept - 1);
});

Deno.test("what a peer sends in pieces while it waits for a lock is executed in its order", async () => {
  const side = new ConversationSide();
  const holder = side.connect();
  holder.ask("set k 0 0 1\r\n1\r\nlock k\r\n");
  const pieces = ["lock k 60000\r\nincr k", " 4\r\nin", "cr k 20\r", "\n"];
  const { promise: closed, resolve: close } = Promise.withResolvers<null>();
  let reads = 0;
  let received = "";
  const socket = {
    read: (buffer: Uint8Array) => {
      const piece = pieces[reads++];
      if (piece === undefined) return closed;
      buffer.set(bytesOf(piece));
      return Promise.resolve(piece.length);
    },
    write: (bytes: Uint8Array) => {
      received += textOf(bytes);
      return Promise.resolve(bytes.length);
    },
    close: () => {},
  } as unknown as Deno.Conn;
  const connection = connectionOf(socket, side, new ConnectionBuffers());
  const ended = connection.serve(() => {});
  await until(() => reads > pieces.length);
  holder.ask("unlock k\r\n");
  connection.resume();
  await until(() => received !== "");
  close(null);
  await ended;
  assertEquals(received, "OK\r\n5\r\n25\r\n");
});

/** A server with rows whose database answers when the test says so. */
class HeldRowsSide extends RowsSide {
  protected override work(): void {}
}

Deno.test("what a peer sends while it waits for a row is answered by no read from before", async () => {
  const side = new HeldRowsSide();
  for (const key of "abcd") side.rows.set(key, { flags: 0, version: 1, data: bytesOf("old") });
  const { promise: late, resolve: sendLate } = Promise.withResolvers<string>();
  const { promise: closed, resolve: close } = Promise.withResolvers<null>();
  const pieces = ["get a b c\r\nget d\r\n", late];
  let reads = 0;
  let received = "";
  const socket = {
    read: async (buffer: Uint8Array) => {
      const piece = pieces[reads++];
      if (piece === undefined) return closed;
      const text = await piece;
      buffer.set(bytesOf(text));
      return text.length;
    },
    write: (bytes: Uint8Array) => {
      received += textOf(bytes);
      return Promise.resolve(bytes.length);
    },
    close: () => {},
  } as unknown as Deno.Conn;
  const connection = connectionOf(socket, side, new ConnectionBuffers());
  const ended = connection.serve(() => {});
  const taken: RowRequest[] = [];
  const answer = (keys: string): void => {
    taken.push(...side.take());
    side.answer(taken.filter(({ key }) => keys.includes(key)));
    taken.splice(0, Infinity, ...taken.filter(({ key }) => !keys.includes(key)));
    connection.resume();
  };
  await until(() => reads === 2);
  // The key c is asked for again when b is waited for, and d when c has been answered twice.
  answer("a");
  await until(() => received.includes("VALUE a"));
  answer("bc");
  await until(() => received.includes("VALUE c"));
  side.connect().feed(bytesOf("set c 0 0 3\r\nnew\r\n"));
  answer("c");
  sendLate("get c\r\n");
  await until(() => reads === 3);
  answer("d");
  await until(() => received.includes("VALUE d"));
  await until(() => {
    answer("c");
    return received.endsWith("new\r\nEND\r\n") || received.split("VALUE c").length === 3;
  });
  close(null);
  await ended;
  assertEquals(received.split("VALUE c").at(-1), " 0 3\r\nnew\r\nEND\r\n");
});

/** Serves one connection whose reads return these many bytes of `mn` requests. Returns the room of each read. */
async function readRooms(
  lengths: readonly number[],
  buffers = new ConnectionBuffers(),
): Promise<number[]> {
  using side = new ConversationSide();
  const rooms: number[] = [];
  const left = [...lengths];
  const socket = {
    read: (buffer: Uint8Array) => {
      rooms.push(buffer.length);
      const length = Math.min(left.shift() ?? 0, buffer.length);
      buffer.set(bytesOf("mn\r\n".repeat(length / 4)));
      return Promise.resolve(length === 0 ? null : length);
    },
    write: (bytes: Uint8Array) => Promise.resolve(bytes.length),
    close: () => {},
  } as unknown as Deno.Conn;
  await connectionOf(socket, side, buffers).serve(() => {});
  return rooms;
}

const [IDLE, BUSY] = [512, 4096];
const SMALL_READS = 16;

Deno.test("a full read makes the next buffer larger, sixteen small ones in a row make it smaller", async () => {
  const small = (count: number): number[] => Array.from({ length: count }, () => IDLE);
  const busy = (count: number): number[] => Array.from({ length: count }, () => BUSY);
  assertEquals(await readRooms([4, 508]), [IDLE, IDLE, IDLE]);
  assertEquals(await readRooms([IDLE, ...small(SMALL_READS)]), [IDLE, ...busy(SMALL_READS), IDLE]);
  // A read that would not fit the smaller buffer begins the count anew.
  const broken = [IDLE, ...small(SMALL_READS - 1), IDLE + 4, ...small(SMALL_READS)];
  assertEquals(await readRooms(broken), [IDLE, ...busy(2 * SMALL_READS), IDLE]);
  const rooms = await readRooms([IDLE, BUSY, ...busy(SMALL_READS), ...small(SMALL_READS)]);
  const bulk = rooms[2]!;
  assertGreater(bulk, BUSY);
  const bulkReads = Array.from({ length: SMALL_READS }, () => bulk);
  assertEquals(rooms, [IDLE, BUSY, ...bulkReads, ...busy(SMALL_READS), IDLE]);
});

Deno.test("buffers of reads go back to their pools, and a connection without a large one goes on", async () => {
  const buffers = new ConnectionBuffers();
  const [, busyPool, bulkPool] = buffers.reads;
  const taken: (Uint8Array<ArrayBuffer> | null)[] = [];
  for (let buffer = bulkPool!.take(); buffer !== null; buffer = bulkPool!.take()) {
    taken.push(buffer);
  }
  assertEquals(await readRooms([IDLE, BUSY, BUSY, 4], buffers), [IDLE, BUSY, BUSY, BUSY, BUSY]);
  bulkPool!.give(taken.pop()!);
  for (let round = 0; round < 3; round++) {
    const rooms = await readRooms([IDLE, BUSY, 4], buffers);
    assertEquals(rooms.map((room) => room > BUSY), [false, false, true, true]);
  }
  const kept = busyPool!.memoryCount;
  // As many as are cut from one block: a buffer that is lost each time would need another.
  for (let round = 0; round < kept; round++) await readRooms([IDLE, BUSY, 4], buffers);
  assertEquals(busyPool!.memoryCount, kept);
});

Deno.test("a connection is idle, sending or finished as its reply and its wait are", async () => {
  const side = new ConversationSide();
  const peer = new SlowPeer("mn\r\n");
  const { promise: closed, resolve: close } = Promise.withResolvers<null>();
  const { socket } = peer;
  const read = socket.read.bind(socket);
  let reads = 0;
  let closes = 0;
  socket.read = (buffer) => reads++ === 0 ? read(buffer) : closed;
  const write = socket.write.bind(socket);
  let writes = 0;
  socket.write = (bytes) => {
    writes++;
    return write(bytes);
  };
  socket.close = () => {
    closes++;
    close(null);
  };
  side.pause(10);
  const connection = connectionOf(socket, side, new ConnectionBuffers());
  assertEquals([connection.isIdle, connection.sendingSinceSec], [true, 0]);
  const ended = connection.serve(() => {});
  await until(() => writes === 1);
  assertEquals([connection.isIdle, connection.sendingSinceSec], [false, 12]);
  connection.finish();
  assertEquals(closes, 0, "a reply is being sent");
  peer.read();
  await ended;
  assertEquals([peer.received, connection.sendingSinceSec, closes], [4, 0, 1]);
  connection.close("error");
  assertEquals([closes, connection.closeReason], [1, "normal"]);
  const idle = connectionOf(socket, side, new ConnectionBuffers());
  idle.finish();
  assertEquals([closes, idle.closeReason], [2, "shutdown"]);
});

Deno.test("each part of a reply that the client takes begins the time of sending anew", async () => {
  const side = new ConversationSide();
  const { socket } = new SlowPeer("mn\r\n");
  const since: number[] = [];
  const connection = connectionOf(socket, side, new ConnectionBuffers());
  socket.write = () => {
    since.push(connection.sendingSinceSec);
    side.pause(10);
    return Promise.resolve(1);
  };
  await connection.serve(() => {});
  assertEquals(since.map((sec) => sec - since[0]!), [0, 10, 20, 30]);
});
