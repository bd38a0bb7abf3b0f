import { assertEquals } from "@std/assert";
import { EAGAIN, type Libc } from "../../../../lib/net/native/libc.ts";
import {
  type OpenSsl,
  SSL_ERROR_WANT_READ,
  type SslCalls,
} from "../../../../lib/net/native/tls/openssl.ts";
import { TlsStream } from "../../../../lib/net/native/tls/stream.ts";

/** A stream whose next read finds a record without data. @param errno What the socket's last read has left. */
function streamAfterEmptyRecord(errno: number, isBuffered: boolean): TlsStream {
  const libc = { errno: 0 } as Libc;
  const calls = {
    SSL_new: () => ({}),
    SSL_set_fd: () => 1,
    SSL_read: () => {
      libc.errno = errno;
      return -1;
    },
    SSL_get_error: () => SSL_ERROR_WANT_READ,
    SSL_has_pending: () => isBuffered ? 1 : 0,
  } as unknown as SslCalls;
  const stream = new TlsStream({ calls } as OpenSsl, libc, 0);
  stream.start({} as never, 3, undefined);
  return stream;
}

Deno.test("behind a record without data more may be buffered, of which epoll does not know", () => {
  for (
    const [errno, isBuffered, hasMore] of [
      [0, true, true],
      [0, false, false],
      [EAGAIN, true, false],
    ] as const
  ) {
    const stream = streamAfterEmptyRecord(errno, isBuffered);
    assertEquals(stream.read(new Uint8Array(10), 10), -EAGAIN);
    assertEquals(stream.hasMore, hasMore, `errno ${errno}, buffered ${isBuffered}`);
  }
});
