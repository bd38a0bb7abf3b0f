import { assertEquals, assertThrows } from "@std/assert";
import { TlsContexts } from "../../../../lib/net/native/tls/contexts.ts";
import { OpenSsl } from "../../../../lib/net/native/tls/openssl.ts";
import { Certificates } from "../../../support/servers/certificates.ts";
import { TRANSPORTS } from "../../../support/servers/server_process.ts";
import { needs } from "../../../support/needs/needs.ts";

Deno.test({
  name: "a context is freed when certificates are loaded anew, or cannot be",
  ...needs("native", TRANSPORTS.includes("native")),
  // The library stays loaded.
  sanitizeResources: false,
  fn(): void {
    using certificates = new Certificates();
    const { certPath, keyPath } = certificates.make("localhost");
    const settings = {
      ...{ chainCert: certPath, key: keyPath, keyFormat: 1, verifyMode: 0, ciphers: null },
      ...{ caCert: null, writeBufferBytes: 0, sessionCache: false, kernelTls: false },
      ...{ minVersion: 2, handshakeTimeoutSec: 1 },
    };
    const openssl = new OpenSsl();
    let references = 0;
    const calls: typeof openssl.calls = {
      ...openssl.calls,
      "SSL_CTX_new": (method) => (references++, openssl.calls.SSL_CTX_new(method)),
      "SSL_CTX_up_ref": (context) => (references++, openssl.calls.SSL_CTX_up_ref(context)),
      "SSL_CTX_free": (context) => (references--, openssl.calls.SSL_CTX_free(context)),
    };
    const counting = { calls, takeError: () => openssl.takeError() } as OpenSsl;
    const shared = TlsContexts.createShared();
    const threads = [1, 2].map(() => new TlsContexts(counting, settings, shared));
    for (let count = 0; count < 3; count++) {
      threads[0]!.load();
      for (const thread of [...threads, ...threads]) thread.current();
      assertEquals(references, 1 + threads.length);
    }
    Deno.writeTextFileSync(certPath, "junk");
    assertThrows(() => threads[0]!.load());
    assertEquals(references, 1 + threads.length);
  },
});
