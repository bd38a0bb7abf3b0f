import type { Certificate } from "./certificates.ts";

/** Returns what a TLS client sends first. */
export async function clientHello({ cert }: Certificate): Promise<Uint8Array> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connecting = Deno.connectTls({
    hostname: "127.0.0.1",
    port: listener.addr.port,
    caCerts: [cert],
  });
  const accepted = await listener.accept();
  const client = await connecting;
  const handshake = client.handshake().catch(() => {});
  const buffer = new Uint8Array(4096);
  const length = await accepted.read(buffer);
  accepted.close();
  await handshake;
  client.close();
  return buffer.slice(0, length!);
}
