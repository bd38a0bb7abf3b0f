import { assertRejects } from "@std/assert";
import { dial } from "../../../lib/peers/dial.ts";
import { waitingFor } from "../../support/waiting.ts";

Deno.test("dial() gives up when its signal comes before or during the TLS handshake", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { startTls } = Deno;
  for (const isEarly of [true, false]) {
    const accepting = listener.accept();
    const giveUp = new AbortController();
    Deno.startTls = async (...args) => {
      if (isEarly) giveUp.abort();
      const socket = await startTls(...args);
      // No peer answers the handshake, which begins when the caller goes on.
      if (!isEarly) setTimeout(() => giveUp.abort());
      return socket;
    };
    try {
      const dialling = dial({ hostname: "127.0.0.1", port: listener.addr.port }, "", giveUp.signal);
      await waitingFor("dial() to give up", assertRejects(() => dialling));
    } finally {
      Deno.startTls = startTls;
    }
    (await accepting).close();
  }
  listener.close();
});

Deno.test("a connection whose TLS handshake fails is closed", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const answering = listener.accept();
  const dialling = dial({ hostname: "127.0.0.1", port }, "", new AbortController().signal);
  const peer = await answering;
  await peer.write(new TextEncoder().encode("VERSION 1.6\r\n"));
  await waitingFor("dial() to refuse what is no TLS", assertRejects(() => dialling));
  const buffer = new Uint8Array(1024);
  // An alert of TLS, and the end.
  while (await waitingFor("the end", peer.read(buffer).catch(() => null)) !== null);
  peer.close();
  listener.close();
});
