import type { TlsSettings } from "../../../../protocol/settings.ts";
import { cString } from "../libc.ts";
import { TlsError } from "../../transport.ts";
import { type Handle, type OpenSsl, SSL_VERIFY_NONE } from "./openssl.ts";

// ssl.h and prov_ssl.h of OpenSSL 3.
const SSL_CTRL_MODE = 33;
const SSL_CTRL_SET_SESS_CACHE_MODE = 44;
const SSL_CTRL_CLEAR_MODE = 78;
const SSL_CTRL_SET_MIN_PROTO_VERSION = 123;
const SSL_SESS_CACHE_OFF = 0;
const SSL_SESS_CACHE_SERVER = 2;
const SSL_MODE_ENABLE_PARTIAL_WRITE = 1;
const SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 2;
const SSL_MODE_AUTO_RETRY = 4;
const SSL_MODE_RELEASE_BUFFERS = 0x10;
const SSL_OP_ENABLE_KTLS = 1n << 3n;
const SSL_OP_IGNORE_UNEXPECTED_EOF = 1n << 7n;
const SSL_OP_NO_RENEGOTIATION = 1n << 30n;
/** By `--ssl-min-version`. */
const PROTOCOL_VERSIONS = [0x0301, 0x0302, 0x0303, 0x0304] as const;
/** Sessions are valid for this server only. */
const SESSION_CONTEXT = new TextEncoder().encode("leased");
/** The pass phrase of encrypted keys: OpenSSL would otherwise ask for one on the terminal, and block the thread. */
const NO_PASS_PHRASE = new Uint8Array(new ArrayBuffer(8));

// The shared memory, in bytes.
const LOCK_AT = 0;
const GENERATION_AT = 4;
const ADDRESS_AT = 8;
const LOADED_AT = 16;
const SHARED_BYTES = 24;
const FREE = 0;
const HELD = 1;

/**
 * The certificates and settings of new TLS connections: one SSL_CTX, which all threads share, so that a session can be
 * resumed on any of them. A newly loaded one takes its place; connections keep the one that they began with.
 */
export class TlsContexts {
  readonly #openssl: OpenSsl;
  readonly #settings: TlsSettings;
  readonly #words: Int32Array<ArrayBufferLike>;
  readonly #address: BigUint64Array<ArrayBufferLike>;
  readonly #loadedAtMs: Float64Array<ArrayBufferLike>;
  /** This thread's reference. */
  #context: Handle | null = null;
  #generation = 0;

  /** @param shared The result of `createShared`: the same for every thread. */
  constructor(openssl: OpenSsl, settings: TlsSettings, readonly shared: SharedArrayBuffer) {
    this.#openssl = openssl;
    this.#settings = settings;
    this.#words = new Int32Array(shared, LOCK_AT, 2);
    this.#address = new BigUint64Array(shared, ADDRESS_AT, 1);
    this.#loadedAtMs = new Float64Array(shared, LOADED_AT, 1);
  }

  static createShared(): SharedArrayBuffer {
    return new SharedArrayBuffer(SHARED_BYTES);
  }

  /** Seconds since the certificates were loaded. */
  get ageSec(): number {
    return Math.max(0, Math.floor((Date.now() - this.#loadedAtMs[0]!) / 1000));
  }

  /** How often the certificates were loaded. */
  get generation(): number {
    return Atomics.load(this.#words, GENERATION_AT / 4);
  }

  /**
   * Loads the files, for new connections of every thread.
   *
   * @throws TlsError with memcached's text when one is wrong: the previous certificates stay in use.
   */
  load(): void {
    const { calls } = this.#openssl;
    const context = calls.SSL_CTX_new(calls.TLS_server_method());
    if (context === null) throw new TlsError(`Error creating: ${this.#openssl.takeError()}`);
    try {
      this.#configure(context);
    } catch (error) {
      calls.SSL_CTX_free(context);
      throw error;
    }
    this.#lock();
    const old = Deno.UnsafePointer.create(this.#address[0]!);
    this.#address[0] = Deno.UnsafePointer.value(context);
    this.#loadedAtMs[0] = Date.now();
    Atomics.add(this.#words, GENERATION_AT / 4, 1);
    this.#unlock();
    // Threads and connections that use it have references of their own.
    if (old !== null) calls.SSL_CTX_free(old);
  }

  /** Returns the SSL_CTX for a new connection. */
  current(): Handle {
    const { generation } = this;
    if (this.#context !== null && generation === this.#generation) return this.#context;
    const { calls } = this.#openssl;
    const old = this.#context;
    this.#lock();
    this.#generation = this.generation;
    const context = Deno.UnsafePointer.create(this.#address[0]!);
    if (context !== null) calls.SSL_CTX_up_ref(context);
    this.#unlock();
    if (context === null) throw new TypeError("Cannot accept TLS connections: no certificates");
    if (old !== null) calls.SSL_CTX_free(old);
    this.#context = context;
    return context;
  }

  #configure(context: Handle): void {
    const { calls } = this.#openssl;
    const { minVersion, kernelTls, sessionCache, verifyMode } = this.#settings;
    const control = (command: number, value: number): void => {
      calls.SSL_CTX_ctrl(context, command, BigInt(value), null);
    };
    control(SSL_CTRL_SET_MIN_PROTO_VERSION, PROTOCOL_VERSIONS[minVersion]!);
    calls.SSL_CTX_set_options(
      context,
      SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |
        (kernelTls ? SSL_OP_ENABLE_KTLS : 0n),
    );
    control(
      SSL_CTRL_MODE,
      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
        SSL_MODE_RELEASE_BUFFERS,
    );
    // A read returns after one record without data: a peer that sends only such records must not occupy the thread.
    // That excludes read-ahead, so each record takes two reads of the socket.
    control(SSL_CTRL_CLEAR_MODE, SSL_MODE_AUTO_RETRY);
    control(
      SSL_CTRL_SET_SESS_CACHE_MODE,
      sessionCache ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF,
    );
    calls.SSL_CTX_set_session_id_context(context, SESSION_CONTEXT, SESSION_CONTEXT.length);
    if (verifyMode !== SSL_VERIFY_NONE) calls.SSL_CTX_set_verify(context, verifyMode, null);
    this.#loadFiles(context);
  }

  /** In memcached's order, with its texts. */
  #loadFiles(context: Handle): void {
    const { calls } = this.#openssl;
    const { chainCert, key, keyFormat, ciphers, caCert } = this.#settings;
    const require = (isDone: boolean, text: () => string): void => {
      if (!isDone) throw new TlsError(text());
    };
    const error = (): string => this.#openssl.takeError();
    calls.SSL_CTX_set_default_passwd_cb_userdata(context, NO_PASS_PHRASE);
    require(
      calls.SSL_CTX_use_certificate_chain_file(context, cString(chainCert)) === 1,
      () => `Error loading the certificate chain: ${chainCert} : ${error()}`,
    );
    // A key that belongs to another certificate takes that certificate out of the context.
    require(
      calls.SSL_CTX_use_PrivateKey_file(context, cString(key), keyFormat) === 1,
      () => `Error loading the key: ${key} : ${error()}`,
    );
    require(
      calls.SSL_CTX_check_private_key(context) === 1,
      () => `Error validating the certificate: ${error()}`,
    );
    require(
      ciphers === null || calls.SSL_CTX_set_cipher_list(context, cString(ciphers)) === 1,
      () => {
        this.#openssl.clearErrors();
        return `Error setting the provided cipher(s): ${ciphers}`;
      },
    );
    if (caCert === null) return;
    const path = cString(caCert);
    const names = calls.SSL_CTX_load_verify_locations(context, path, null) === 1
      ? calls.SSL_load_client_CA_file(path)
      : null;
    require(names !== null, () => `Error loading the CA certificate: ${caCert} : ${error()}`);
    calls.SSL_CTX_set_client_CA_list(context, names);
  }

  #lock(): void {
    while (Atomics.compareExchange(this.#words, LOCK_AT, FREE, HELD) !== FREE) {
      Atomics.wait(this.#words, LOCK_AT, HELD);
    }
  }

  #unlock(): void {
    Atomics.store(this.#words, LOCK_AT, FREE);
    Atomics.notify(this.#words, LOCK_AT, 1);
  }
}
