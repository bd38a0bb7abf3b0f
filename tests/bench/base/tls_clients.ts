/** TLS for load generators: OpenSSL over non-blocking sockets, through FFI. */
const SSL = Deno.build.os === "linux" ? "libssl.so.3" : "";
const SYMBOLS = {
  TLS_client_method: { parameters: [], result: "pointer" },
  SSL_CTX_new: { parameters: ["pointer"], result: "pointer" },
  SSL_CTX_free: { parameters: ["pointer"], result: "void" },
  SSL_CTX_ctrl: { parameters: ["pointer", "i32", "i64", "pointer"], result: "i64" },
  SSL_new: { parameters: ["pointer"], result: "pointer" },
  SSL_free: { parameters: ["pointer"], result: "void" },
  SSL_set_fd: { parameters: ["pointer", "i32"], result: "i32" },
  SSL_connect: { parameters: ["pointer"], result: "i32" },
  SSL_read: { parameters: ["pointer", "buffer", "i32"], result: "i32" },
  SSL_write: { parameters: ["pointer", "buffer", "i32"], result: "i32" },
  SSL_get_error: { parameters: ["pointer", "i32"], result: "i32" },
  SSL_key_update: { parameters: ["pointer", "i32"], result: "i32" },
  SSL_do_handshake: { parameters: ["pointer"], result: "i32" },
} as const;
const FCNTL = { fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" } } as const;

const SSL_ERROR_WANT_READ = 2;
const SSL_ERROR_WANT_WRITE = 3;
const SSL_CTRL_MODE = 33;
const SSL_CTRL_SET_READ_AHEAD = 41;
/** Partial writes, and moving buffers. */
const MODE = 3n;
const F_SETFL = 4;
const O_NONBLOCK = 0o4000;
const SSL_KEY_UPDATE_REQUESTED = 1;

type Handle = NonNullable<Deno.PointerValue>;

/** OpenSSL for many connections of one process. Servers' certificates are not verified. */
export class TlsClients {
  readonly #library = Deno.dlopen(SSL, SYMBOLS);
  readonly #libc = Deno.dlopen("libc.so.6", FCNTL);
  readonly #calls = this.#library.symbols;
  readonly #context: Handle;
  /** By descriptor. */
  readonly #ssl: (Handle | undefined)[] = [];

  constructor() {
    this.#context = this.#calls.SSL_CTX_new(this.#calls.TLS_client_method())!;
    this.#calls.SSL_CTX_ctrl(this.#context, SSL_CTRL_MODE, MODE, null);
    this.#calls.SSL_CTX_ctrl(this.#context, SSL_CTRL_SET_READ_AHEAD, 1n, null);
  }

  /** Adds a connected socket, which must be new to it. */
  add(fd: number): void {
    this.#libc.symbols.fcntl(fd, F_SETFL, O_NONBLOCK);
    const ssl = this.#calls.SSL_new(this.#context)!;
    this.#calls.SSL_set_fd(ssl, fd);
    this.#ssl[fd] = ssl;
  }

  /** One step of the handshake. @returns Whether it is done. @throws Error when it fails. */
  handshake(fd: number): boolean {
    const ssl = this.#ssl[fd]!;
    return this.#check(ssl, this.#calls.SSL_connect(ssl)) > 0;
  }

  /** Asks for new keys on both sides. */
  updateKeys(fd: number): void {
    const ssl = this.#ssl[fd]!;
    this.#calls.SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
    this.#check(ssl, this.#calls.SSL_do_handshake(ssl));
  }

  /** @returns How many bytes were taken; 0: none now. @throws Error when the connection is broken. */
  send(fd: number, bytes: Uint8Array): number {
    const ssl = this.#ssl[fd]!;
    let sent = 0;
    while (sent < bytes.length) {
      const rest = bytes.subarray(sent) as Uint8Array<ArrayBuffer>;
      const count = this.#check(ssl, this.#calls.SSL_write(ssl, rest, rest.length));
      if (count === 0) break;
      sent += count;
    }
    return sent;
  }

  /** Fills `into` as far as there are bytes. @returns How many there were. @throws Error as `send`. */
  receive(fd: number, into: Uint8Array): number {
    const ssl = this.#ssl[fd]!;
    let received = 0;
    while (received < into.length) {
      const rest = received === 0 ? into : into.subarray(received);
      const buffer = rest as Uint8Array<ArrayBuffer>;
      const count = this.#check(ssl, this.#calls.SSL_read(ssl, buffer, rest.length));
      if (count === 0) break;
      received += count;
    }
    return received;
  }

  remove(fd: number): void {
    this.#calls.SSL_free(this.#ssl[fd]!);
    this.#ssl[fd] = undefined;
  }

  close(): void {
    for (const ssl of this.#ssl) if (ssl !== undefined) this.#calls.SSL_free(ssl);
    this.#calls.SSL_CTX_free(this.#context);
    this.#library.close();
    this.#libc.close();
  }

  #check(ssl: Handle, result: number): number {
    if (result > 0) return result;
    const error = this.#calls.SSL_get_error(ssl, result);
    if (error === SSL_ERROR_WANT_READ || error === SSL_ERROR_WANT_WRITE) return 0;
    throw new Error(`Cannot talk to the server: TLS failed (SSL_get_error says ${error})`);
  }
}
