// Reads of the TLS layer, beside an OpenSSL whose results tests choose.
import { assertEquals } from "@std/assert";
import { EAGAIN, ECONNRESET, type Libc } from "../../../../lib/net/native/libc.ts";
import { ReceiveLoop } from "../../../../lib/net/native/receive_loop.ts";
import {
  type OpenSsl,
  SSL_ERROR_WANT_READ,
  SSL_ERROR_WANT_WRITE,
  type SslCalls,
} from "../../../../lib/net/native/tls/openssl.ts";
import { TlsStream } from "../../../../lib/net/native/tls/stream.ts";

/** The result of one SSL_read. */
interface Step {
  /** Bytes of the record; -1: none. */
  readonly received: number;
  readonly error?: number;
  /** Of the socket's last read. */
  readonly errno?: number;
  /** Whether bytes of the socket are left in the layer. */
  readonly isPending: boolean;
}

const EMPTY_SOCKET: Step = {
  received: -1,
  error: SSL_ERROR_WANT_READ,
  errno: EAGAIN,
  isPending: false,
};
/** A record without data: the socket was not read empty. */
const EMPTY_RECORD: Step = { received: -1, error: SSL_ERROR_WANT_READ, isPending: true };

/** Returns a stream whose reads have these results, one after the other. */
function streamOf(steps: readonly Step[]): TlsStream {
  const libc = { errno: 0 };
  const left = [...steps];
  let step = EMPTY_SOCKET;
  const read = (): number => {
    // OpenSSL leaves errno as it is when it does not read the socket.
    assertEquals(libc.errno, 0, "errno of an earlier call");
    step = left.shift() ?? EMPTY_SOCKET;
    libc.errno = step.errno ?? 0;
    return step.received;
  };
  const calls = {
    "SSL_new": () => ({}),
    "SSL_set_fd": () => 1,
    "SSL_read": read,
    readInto: read,
    "SSL_get_error": () => step.error ?? 0,
    "SSL_has_pending": () => step.isPending ? 1 : 0,
  } as unknown as SslCalls;
  const openssl = { calls, takeError: () => "", clearErrors: () => {} } as unknown as OpenSsl;
  const stream = new TlsStream(openssl, libc as unknown as Libc, 0);
  stream.start({} as NonNullable<Deno.PointerValue>, 3, undefined);
  return stream;
}

const READS: Record<string, (stream: TlsStream) => number> = {
  read: (stream) => stream.read(new Uint8Array(9), 9),
  readInto: (stream) => stream.readInto(4096, 9),
};

for (const [name, read] of Object.entries(READS)) {
  Deno.test(`TlsStream.${name}: bytes behind a record without data are read without an event`, () => {
    const stream = streamOf([EMPTY_RECORD, EMPTY_RECORD, { received: 5, isPending: false }]);
    for (let records = 0; records < 2; records++) {
      assertEquals(read(stream), -EAGAIN);
      assertEquals(stream.hasMore, true, "buffered bytes that epoll does not know of");
    }
    assertEquals(read(stream), 5);
    assertEquals(read(stream), -EAGAIN);
    assertEquals(stream.hasMore, false, "the socket is empty");
  });

  Deno.test(`TlsStream.${name}: a record that has not arrived whole waits for the socket`, () => {
    const stream = streamOf([EMPTY_RECORD, { ...EMPTY_SOCKET, isPending: true }]);
    assertEquals(read(stream), -EAGAIN);
    assertEquals(read(stream), -EAGAIN);
    assertEquals(stream.hasMore, false, "a loop that only an event may end");
  });

  Deno.test(`TlsStream.${name}: an empty record with nothing behind it waits for the socket`, () => {
    const stream = streamOf([{ ...EMPTY_RECORD, isPending: false }]);
    assertEquals(read(stream), -EAGAIN);
    assertEquals(stream.hasMore, false);
  });

  Deno.test(`TlsStream.${name}: a renegotiation waits for a writable socket, a reset ends`, () => {
    const stream = streamOf([
      { received: -1, error: SSL_ERROR_WANT_WRITE, isPending: false },
      { received: -1, error: 5, isPending: false },
    ]);
    assertEquals(read(stream), -EAGAIN);
    assertEquals([stream.wantsWrite, stream.hasMore], [true, false]);
    assertEquals(read(stream), -ECONNRESET);
  });
}

Deno.test("a connection whose TLS layer has more is read later, another one by an event", () => {
  type Parts = ConstructorParameters<typeof ReceiveLoop>;
  const later: unknown[] = [];
  const thread = { input: { bytes: new Uint8Array(1) } } as unknown as Parts[0];
  const target = { finishLater: (each: unknown) => later.push(each) } as unknown as Parts[4];
  const unused = {} as never;
  const loop = new ReceiveLoop(thread, unused, unused, unused, target);
  const connectionOf = (steps: readonly Step[]): Parameters<ReceiveLoop["failed"]>[0] => {
    const tls = streamOf(steps);
    assertEquals(tls.read(new Uint8Array(9), 9), -EAGAIN);
    return { tls } as unknown as Parameters<ReceiveLoop["failed"]>[0];
  };
  const more = connectionOf([EMPTY_RECORD]);
  loop.failed(more, -EAGAIN);
  loop.failed(connectionOf([EMPTY_SOCKET]), -EAGAIN);
  assertEquals(later, [more]);
});
