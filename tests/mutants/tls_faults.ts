import { type Fault, faults } from "./fault.ts";

// deno-fmt-ignore
/** Faults in TLS: which clients get in, what they are sent, and what a connection that ends leaves behind. */
export const TLS_FAULTS: readonly Fault[] = [
  ...faults("lib/net/native/tls/handshakes.ts", "lib/net/tls", [
    ["mtls: takes clients without a certificate", "mtls: SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,", "mtls: SSL_VERIFY_PEER,"],
    ["btls: asks for a certificate", "btls: SSL_VERIFY_NONE,", "btls: undefined,"],
  ]),
  ...faults("lib/cli/tls_options.ts", "lib/net/tls", [
    ["-o ssl_verify_mode=1 verifies no certificate", "[0, 1, 3, 7] as const", "[0, 0, 3, 7] as const"],
    ["the portable transport takes --ssl-verify-mode, and asks for no certificate", "  [\"ssl-verify-mode\", 0],\n", ""],
  ]),
  ...faults("lib/net/native/tls/contexts.ts", "lib/net/tls", [
    ["--ssl-min-version is ignored", "PROTOCOL_VERSIONS[minVersion]!", "PROTOCOL_VERSIONS[2]"],
    ["sessions are cached without --ssl-session-cache", "sessionCache ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF,", "SSL_SESS_CACHE_SERVER,"],
    ["sessions are not cached with --ssl-session-cache", "sessionCache ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF,", "SSL_SESS_CACHE_OFF,"],
    ["new connections keep the certificates of before",
      "if (this.#context !== null && generation === this.#generation) return this.#context;", "if (this.#context !== null) return this.#context;"],
    ["a certificate and a key that do not belong together are taken", "calls.SSL_CTX_check_private_key(context) === 1,", "true,"],
  ]),
  ...faults("lib/net/native/tls/contexts.ts", "lib/net/tls_hostile", [
    // 1n << 8n is SSL_OP_ALLOW_CLIENT_RENEGOTIATION.
    ["clients may renegotiate",
      "SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |", "(1n << 8n) | SSL_OP_IGNORE_UNEXPECTED_EOF |", "renegotiations"],
  ]),
  ...faults("lib/net/native/tls/handshakes.ts", "lib/net/tls", [
    ["handshakes have no time limit", "nowSec - connection.tls!.sinceSec > this.#timeoutSec;", "nowSec < 0;"],
  ]),
  ...faults("lib/net/native/tls/handshakes.ts", "lib/net/tls_hostile", [
    ["a handshake that waited for others never begins", "this.#epoll.watch(next, EPOLLIN | EPOLLRDHUP);", "", "do not finish"],
    ["any number of handshakes are under way",
      "if (this.#steppedAtMs.size >= STARTED_MAX && !this.#dropSlowest()) {", "if (this.#steppedAtMs.size >= Infinity) {", "do not finish"],
  ]),
  ...faults("lib/net/native/tls/handshakes.ts", "lib/net/tls", [
    ["failed handshakes are not counted", "this.#count(STAT.ssl_handshake_errors, 1);", ""],
  ]),
  ...faults("lib/net/native/tls/stream.ts", "lib/net/tls", [
    ["a full socket breaks the connection", "return isFull ? sent : this.#broke(BROKEN);", "return this.#broke(BROKEN);"],
    ["clients are not told that the server ends a connection", "if (this.#calls.SSL_shutdown(this.#ssl) < 0) this.#openssl.clearErrors();", ""],
  ]),
  ...faults("lib/net/native/receive_loop.ts", "lib/net/tls", [
    ["requests that the TLS layer has buffered wait for more bytes",
      "if (connection.mayRead && connection.tls?.hasBuffered === true) {", "if (false) {", "behind one that waits"],
  ]),
  ...faults("lib/net/native/value_io.ts", "lib/net/tls", [
    ["pieces of a record overwrite each other in a long value", "values.locate(item, filled + received)", "values.locate(item, filled)"],
  ]),
  ...faults("lib/net/native/tls/writer.ts", "lib/net/tls", [
    ["bytes of a reply are sent twice where the socket was full",
      "if (written !== RECORD_BYTES) return written < 0 ? written : taken + written;", "if (written !== RECORD_BYTES) return written;"],
  ]),
  ...faults("lib/cli/options.ts", "lib/net/tls", [
    ["notls: ports have TLS", "...mode === \"notls\" ? {} : { tls: mode },", "...{ tls: mode === \"notls\" ? \"tls\" : mode },"],
  ]),
  ...faults("lib/rows/caches/dial.ts", "lib/rows/audit/audit", [
    ["the proxy reaches caches in clear text, whatever --cache-ca-cert says",
      "if (caCert === null) return plain;", "if (caCert !== undefined) return plain;", "over TLS"],
  ]),
];
