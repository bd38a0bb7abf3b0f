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
      // Nobody answers the handshake, which begins when the caller goes on.
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
