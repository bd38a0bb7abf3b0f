import { assertEquals } from "@std/assert";
import { Certificates } from "../support/servers/certificates.ts";
import { startLeased } from "../support/servers/leased.ts";
import { startMemcached, testWithMemcached } from "../support/servers/memcached.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import type { SocketSide } from "../support/sessions/socket_side.ts";

// The settings of TLS, and the answers of `refresh_certs`, are memcached's. The sockets that ask are plain.

const PLAIN = ["-p", "-1", "-l", "notls:127.0.0.1"];

const WORDS: readonly string[] = [
  "ssl_verify_mode=0",
  "ssl_verify_mode=1,ssl_min_version=0",
  "ssl_verify_mode=2,ssl_min_version=1",
  "ssl_verify_mode=3,ssl_min_version=2,ssl_session_cache",
  "ssl_ciphers=ECDHE-ECDSA-AES128-GCM-SHA256,ssl_wbuf_size=32,ssl_kernel_tls,ssl_min_version=3",
  "ssl_keyformat=1,ssl_ca_cert=CA",
];

async function tlsLines(side: SocketSide, table: string): Promise<string[]> {
  const reply = await side.ask(`stats ${table}\r\n`, "END\r\n");
  return reply.split("\r\n").filter((line) =>
    /^STAT ssl_/.test(line) && !/handshake_timeout/.test(line)
  );
}

testWithMemcached("settings of TLS are shown as memcached shows them", async (memcached, t) => {
  using certificates = new Certificates();
  const { certPath, keyPath } = certificates.make("localhost");
  for (const words of ["", ...WORDS]) {
    await t.step(words === "" ? "without -Z" : words, async () => {
      const all = `ssl_chain_cert=${certPath},ssl_key=${keyPath},${words.replace("CA", certPath)}`;
      const options = words === "" ? [] : ["-Z", "-o", all];
      await using ours = await startLeased("native", [...PLAIN, ...options]);
      await using theirs = await startMemcached(memcached, options);
      assertEquals(await tlsLines(ours, "settings"), await tlsLines(theirs, "settings"));
      for (
        const ask of [
          "refresh_certs\r\n",
          "refresh_certs noreply\r\nmn\r\n",
          "refresh_certs x\r\n",
        ]
      ) {
        assertEquals(await ours.ask(ask, "\r\n"), await theirs.ask(ask, "\r\n"));
      }
      Deno.renameSync(certPath, `${certPath}.away`);
      const ask = "refresh_certs\r\n";
      assertEquals(await ours.ask(ask, "\r\n"), await theirs.ask(ask, "\r\n"));
      Deno.renameSync(`${certPath}.away`, certPath);
    });
  }
}, TRANSPORTS.includes("native") ? undefined : "no native transport");
