// Hot path: `read`, `write` and `hasBuffered` run for every batch of requests, and allocate nothing.
import type { Libc } from "../libc.ts";
import * as libcModule from "../libc.ts";
import type { Handle, OpenSsl, SslCalls } from "./openssl.ts";
import * as opensslModule from "./openssl.ts";

const { EAGAIN, ECONNRESET, EPROTO, toAddress } = libcModule;
const { SSL_ERROR_SSL, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_ZERO_RETURN } =
  opensslModule;

/** The connection was reset: a result of `read` and `write`. */
const BROKEN = -ECONNRESET;

/** The result of one step of a handshake. */
export const HandshakeStep = { DONE: 1, WAITS: 0, FAILED: -1 } as const;
export type HandshakeStep = typeof HandshakeStep[keyof typeof HandshakeStep];

/** The layer between a connection's socket and its conversation: plain bytes on this side, TLS records on the other. */
export class TlsStream {
  /** The handshake, or a read, continues when the socket is writable. */
  wantsWrite = false;
  /** After -EAGAIN: a record without data was read, and others behind it are buffered. */
  hasMore = false;
  /** Why the handshake failed. */
  failure = "";
  readonly #openssl: OpenSsl;
  readonly #calls: SslCalls;
  readonly #libc: Libc;
  #ssl: Handle | null = null;
  /** close_notify may be sent. */
  #mayNotify = false;

  /** @param sinceSec When the connection was accepted, in seconds of the store's clock. */
  constructor(openssl: OpenSsl, libc: Libc, readonly sinceSec: number) {
    this.#openssl = openssl;
    this.#calls = openssl.calls;
    this.#libc = libc;
  }

  /** Whether the handshake has begun: an SSL exists. */
  get started(): boolean {
    return this.#ssl !== null;
  }

  /** Whether bytes were read from the socket that `read` has not returned yet. Epoll does not know of them. */
  get hasBuffered(): boolean {
    return this.#ssl !== null && this.#calls.SSL_has_pending(this.#ssl) !== 0;
  }

  /** The protocol's version, as OpenSSL numbers it. */
  get version(): number {
    return this.#ssl === null ? 0 : this.#calls.SSL_version(this.#ssl);
  }

  /** Whether the handshake resumed a session. */
  get isResumed(): boolean {
    return this.#ssl !== null && this.#calls.SSL_session_reused(this.#ssl) !== 0;
  }

  /** @param verifyMode Instead of the context's; undefined: the context's. */
  start(context: Handle, fd: number, verifyMode: number | undefined): void {
    const ssl = this.#calls.SSL_new(context);
    if (ssl === null) throw new Error(`Cannot make an SSL: ${this.#openssl.takeError()}`);
    if (verifyMode !== undefined) this.#calls.SSL_set_verify(ssl, verifyMode, null);
    this.#calls.SSL_set_fd(ssl, fd);
    this.#ssl = ssl;
  }

  handshake(): HandshakeStep {
    const result = this.#calls.SSL_accept(this.#ssl);
    this.wantsWrite = false;
    if (result === 1) {
      this.#mayNotify = true;
      return HandshakeStep.DONE;
    }
    const error = this.#calls.SSL_get_error(this.#ssl, result);
    this.wantsWrite = error === SSL_ERROR_WANT_WRITE;
    if (this.wantsWrite || error === SSL_ERROR_WANT_READ) return HandshakeStep.WAITS;
    this.failure = this.#openssl.takeReason() || "the peer closed";
    return HandshakeStep.FAILED;
  }

  /**
   * Reads what one record holds, `length` bytes at most.
   *
   * @returns As `Libc.resultOf`; -EPROTO if the peer has sent bytes that are not TLS, or were changed on the way.
   */
  read(bytes: Uint8Array, length: number): number {
    if (this.#ssl === null) return BROKEN;
    // OpenSSL says WANT_READ both when the socket is empty and after a record without data.
    this.#libc.errno = 0;
    const received = this.#calls.SSL_read(this.#ssl, bytes as Uint8Array<ArrayBuffer>, length);
    return received > 0 ? received : this.#failed(received);
  }

  /** As `read`, into memory at an address. */
  readInto(address: number, length: number): number {
    if (this.#ssl === null) return BROKEN;
    this.#libc.errno = 0;
    const received = this.#calls.readInto(this.#ssl, toAddress(address), length);
    return received > 0 ? received : this.#failed(received);
  }

  /** Whether the record that was read last has more bytes: a read returns some, and cannot fail. */
  get hasDecrypted(): boolean {
    return this.#ssl !== null && this.#calls.SSL_pending(this.#ssl) > 0;
  }

  /**
   * Writes records of up to 16 KiB. After a short write the next one must begin with the bytes that this one did not
   * take.
   *
   * @returns The number of bytes taken, which may be 0, or -ECONNRESET.
   */
  write(bytes: Uint8Array, length: number): number {
    if (this.#ssl === null) return BROKEN;
    let sent = this.#calls.SSL_write(this.#ssl, bytes as Uint8Array<ArrayBuffer>, length);
    if (sent <= 0) return this.#untaken(sent, 0);
    while (sent < length) {
      const rest = bytes.subarray(sent) as Uint8Array<ArrayBuffer>;
      const more = this.#calls.SSL_write(this.#ssl, rest, length - sent);
      if (more <= 0) return this.#untaken(more, sent);
      sent += more;
    }
    return sent;
  }

  /** As `write`, of memory at an address: one record at most. */
  writeFrom(address: number, length: number): number {
    if (this.#ssl === null) return BROKEN;
    const sent = this.#calls.writeFrom(this.#ssl, toAddress(address), length);
    return sent > 0 ? sent : this.#untaken(sent, 0);
  }

  /** Says that nothing more will be sent (close_notify), if that is possible now. */
  notifyClose(): void {
    if (!this.#mayNotify || this.#ssl === null) return;
    this.#mayNotify = false;
    if (this.#calls.SSL_shutdown(this.#ssl) < 0) this.#openssl.clearErrors();
  }

  /** Frees the SSL. Nothing is read or written afterwards. */
  free(): void {
    if (this.#ssl === null) return;
    this.#calls.SSL_free(this.#ssl);
    this.#ssl = null;
  }

  #untaken(result: number, sent: number): number {
    const isFull = this.#calls.SSL_get_error(this.#ssl, result) === SSL_ERROR_WANT_WRITE;
    return isFull ? sent : this.#broke(BROKEN);
  }

  #failed(result: number): number {
    const { errno } = this.#libc;
    switch (this.#calls.SSL_get_error(this.#ssl, result)) {
      case SSL_ERROR_WANT_READ:
        this.hasMore = errno !== EAGAIN && this.hasBuffered;
        return -EAGAIN;
      case SSL_ERROR_WANT_WRITE:
        this.wantsWrite = true;
        return -EAGAIN;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SSL:
        return this.#broke(-EPROTO);
      default:
        return this.#broke(BROKEN);
    }
  }

  /** After a fatal error nothing may be sent. */
  #broke(end: number): number {
    this.#mayNotify = false;
    this.#openssl.clearErrors();
    return end;
  }
}
