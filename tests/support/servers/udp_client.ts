import { bytesOf, textOf } from "../sessions/side.ts";
import { waitingFor } from "../waiting.ts";

/** A client's UDP socket. */
export class UdpClient implements Disposable {
  readonly #socket = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  readonly #server: Deno.NetAddr;

  /** @param port The server's. */
  constructor(port: number) {
    this.#server = { transport: "udp", hostname: "127.0.0.1", port };
  }

  async send(requestId: number, requests: string): Promise<void> {
    const header = [requestId >> 8, requestId & 0xff, 0, 0, 0, 1, 0, 0];
    await this.#socket.send(new Uint8Array([...header, ...bytesOf(requests)]), this.#server);
  }

  /** Returns the next datagram's request id and text. */
  async receive(): Promise<[requestId: number, text: string]> {
    const [datagram] = await waitingFor("a datagram of the server", this.#socket.receive());
    return [datagram[0]! << 8 | datagram[1]!, textOf(datagram.subarray(8))];
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }
}
