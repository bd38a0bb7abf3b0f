// Hot path: SSL_read, SSL_write and SSL_has_pending run for every batch of requests.
import { TlsError } from "../../transport.ts";

/**
 * The system's OpenSSL 3. Lengths are `i32` and pointers are opaque, so that the calls stay on V8's fast calls (about
 * 10 ns each). `u64` takes an address in the store without an object: see `toAddress`.
 */
const SSL_SYMBOLS = {
  TLS_server_method: { parameters: [], result: "pointer" },
  SSL_CTX_new: { parameters: ["pointer"], result: "pointer" },
  SSL_CTX_up_ref: { parameters: ["pointer"], result: "i32" },
  SSL_CTX_free: { parameters: ["pointer"], result: "void" },
  SSL_CTX_ctrl: { parameters: ["pointer", "i32", "i64", "pointer"], result: "i64" },
  SSL_CTX_set_options: { parameters: ["pointer", "u64"], result: "u64" },
  SSL_CTX_set_cipher_list: { parameters: ["pointer", "buffer"], result: "i32" },
  SSL_CTX_use_certificate_chain_file: { parameters: ["pointer", "buffer"], result: "i32" },
  SSL_CTX_use_PrivateKey_file: { parameters: ["pointer", "buffer", "i32"], result: "i32" },
  SSL_CTX_set_default_passwd_cb_userdata: { parameters: ["pointer", "buffer"], result: "void" },
  SSL_CTX_check_private_key: { parameters: ["pointer"], result: "i32" },
  SSL_CTX_load_verify_locations: { parameters: ["pointer", "buffer", "buffer"], result: "i32" },
  SSL_CTX_set_verify: { parameters: ["pointer", "i32", "pointer"], result: "void" },
  SSL_CTX_set_session_id_context: { parameters: ["pointer", "buffer", "u32"], result: "i32" },
  SSL_load_client_CA_file: { parameters: ["buffer"], result: "pointer" },
  SSL_CTX_set_client_CA_list: { parameters: ["pointer", "pointer"], result: "void" },
  SSL_new: { parameters: ["pointer"], result: "pointer" },
  SSL_free: { parameters: ["pointer"], result: "void" },
  SSL_set_fd: { parameters: ["pointer", "i32"], result: "i32" },
  SSL_set_verify: { parameters: ["pointer", "i32", "pointer"], result: "void" },
  SSL_accept: { parameters: ["pointer"], result: "i32" },
  SSL_session_reused: { parameters: ["pointer"], result: "i32" },
  SSL_version: { parameters: ["pointer"], result: "i32" },
  SSL_read: { parameters: ["pointer", "buffer", "i32"], result: "i32" },
  /** SSL_read into memory at an address. */
  readInto: { name: "SSL_read", parameters: ["pointer", "u64", "i32"], result: "i32" },
  /** Bytes of the record that was read last. */
  SSL_pending: { parameters: ["pointer"], result: "i32" },
  SSL_write: { parameters: ["pointer", "buffer", "i32"], result: "i32" },
  /** SSL_write of memory at an address. */
  writeFrom: { name: "SSL_write", parameters: ["pointer", "u64", "i32"], result: "i32" },
  SSL_has_pending: { parameters: ["pointer"], result: "i32" },
  SSL_get_error: { parameters: ["pointer", "i32"], result: "i32" },
  SSL_shutdown: { parameters: ["pointer"], result: "i32" },
} as const;

const CRYPTO_SYMBOLS = {
  ERR_clear_error: { parameters: [], result: "void" },
  ERR_get_error: { parameters: [], result: "u64" },
  ERR_error_string_n: { parameters: ["u64", "buffer", "u32"], result: "void" },
} as const;

// ssl.h of OpenSSL 3; the same on every architecture.
export const SSL_ERROR_SSL = 1;
export const SSL_ERROR_WANT_READ = 2;
export const SSL_ERROR_WANT_WRITE = 3;
export const SSL_ERROR_ZERO_RETURN = 6;
export const SSL_VERIFY_NONE = 0;
export const SSL_VERIFY_PEER = 1;
export const SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2;
export const TLS1_3_VERSION = 0x0304;

const ERROR_TEXT_BYTES = 256;

/** The names under which OpenSSL 3 is installed. */
const SSL_LIBRARY = "libssl.so.3";
const CRYPTO_LIBRARY = "libcrypto.so.3";

/** A pointer to an SSL or an SSL_CTX. */
export type Handle = NonNullable<Deno.PointerValue>;

export type SslCalls = Deno.DynamicLibrary<typeof SSL_SYMBOLS>["symbols"];

/** One thread's handle on OpenSSL. Threads must not share it: the queue of errors belongs to the thread. */
export class OpenSsl {
  readonly calls: SslCalls;
  readonly #crypto: Deno.DynamicLibrary<typeof CRYPTO_SYMBOLS>["symbols"];

  /** @throws TlsError when the libraries cannot be loaded. */
  constructor() {
    try {
      this.#crypto = Deno.dlopen(CRYPTO_LIBRARY, CRYPTO_SYMBOLS).symbols;
      this.calls = Deno.dlopen(SSL_LIBRARY, SSL_SYMBOLS).symbols;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      throw new TlsError(
        `cannot load ${SSL_LIBRARY}: ${error.message}; -Z needs OpenSSL 3 (Debian: apt install ` +
          `libssl3), or --io portable`,
      );
    }
  }

  /** Empties the thread's queue of errors. SSL_get_error reads it, so nothing of another connection may be in it. */
  clearErrors(): void {
    this.#crypto.ERR_clear_error();
  }

  /** Empties the queue. Returns the first error, `error:0480006C:PEM routines::no start line`; "": there was none. */
  takeError(): string {
    const code = this.#crypto.ERR_get_error();
    if (code === 0n) return "";
    const bytes = new Uint8Array(ERROR_TEXT_BYTES);
    this.#crypto.ERR_error_string_n(code, bytes, bytes.length);
    this.clearErrors();
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  /** As `takeError`, the reason alone: `no start line`. */
  takeReason(): string {
    const text = this.takeError();
    return text.slice(text.lastIndexOf(":") + 1);
  }
}
