import { ByteRegion } from "../../../store/base/bytes.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import type { FairScheduler } from "../fair_scheduler.ts";
import type { TransportContext, UdpListen } from "../transport.ts";
import { concatBytes, UdpExchange } from "../udp_exchange.ts";
import { UDP_HEADER_BYTES, udpDatagrams, udpEmptyFrame, udpRequestId } from "../udp_frames.ts";

/** Serves one UDP socket: every datagram is a conversation of its own. */
export class UdpServer {
  readonly #socket: Deno.DatagramConn;
  readonly #listen: UdpListen;
  readonly #context: TransportContext;
  readonly #scheduler: FairScheduler;
  #closed = false;

  constructor(
    socket: Deno.DatagramConn,
    listen: UdpListen,
    context: TransportContext,
    scheduler: FairScheduler,
  ) {
    this.#socket = socket;
    this.#listen = listen;
    this.#context = context;
    this.#scheduler = scheduler;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.close();
  }

  async serve(): Promise<void> {
    const buffer = new ByteRegion(new ArrayBuffer(INPUT_BYTES));
    while (!this.#closed) {
      try {
        const [datagram, address] = await this.#socket.receive(buffer.bytes);
        const requestId = udpRequestId(datagram);
        if (requestId < 0) continue;
        const { protocol } = this.#listen;
        const exchange = new UdpExchange(
          this.#context,
          protocol,
          requestId,
          buffer,
          UDP_HEADER_BYTES,
          datagram.length,
        );
        for (const answer of await this.#answers(exchange)) {
          await this.#socket.send(answer, address);
        }
      } catch (error) {
        // An error of one peer (unreachable, too long) must not stop the others.
        if (!this.#closed && !(error instanceof Error && "code" in error)) throw error;
      }
    }
  }

  async #answers(exchange: UdpExchange): Promise<Iterable<Uint8Array>> {
    const { reply, work } = this.#context.thread;
    const parts: Uint8Array[] = [];
    while (!exchange.isOver) {
      reply.reset();
      exchange.step();
      parts.push(reply.region.bytes.slice(0, reply.length));
      const turn = this.#scheduler.charge(work.spent);
      if (turn !== null) await turn;
      if (this.#closed) exchange.abandon();
    }
    if (exchange.isTooLong) return [];
    const answers = [...udpDatagrams(exchange.requestId, concatBytes(parts))];
    if (exchange.startsWithEmptyFrame) answers.unshift(udpEmptyFrame(exchange.requestId));
    return answers;
  }
}
