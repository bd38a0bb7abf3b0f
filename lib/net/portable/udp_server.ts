import { ByteRegion, concatBytes } from "../../../store/base/bytes.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import type { FairScheduler } from "./fair_scheduler.ts";
import type { UdpListen } from "../transport.ts";
import type { TransportContext } from "../worker_transport.ts";
import { UdpExchange } from "../udp_exchange.ts";
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
        const parts: Uint8Array[] = [];
        do {
          const turn = this.#step(exchange, parts);
          // The next datagram is received as soon as possible: the kernel holds only a few hundred.
          if (turn !== null) await turn;
          if (this.#closed) exchange.abandon();
        } while (!exchange.isOver);
        if (parts.length > 0 || exchange.startsWithEmptyFrame) {
          await this.#answer(exchange, concatBytes(parts), address);
        }
      } catch (error) {
        // An error of one peer (unreachable, too long) must not stop the others.
        if (!this.#closed && !(error instanceof Error && "code" in error)) throw error;
      }
    }
  }

  /** Executes one slice and appends its replies to `parts`. @returns As `FairScheduler.charge`. */
  #step(exchange: UdpExchange, parts: Uint8Array[]): Promise<void> | null {
    const { reply, work } = this.#context.thread;
    reply.reset();
    exchange.step();
    if (reply.length > 0) parts.push(reply.region.bytes.slice(0, reply.length));
    return this.#scheduler.charge(work.spent);
  }

  async #answer(exchange: UdpExchange, replies: Uint8Array, address: Deno.Addr): Promise<void> {
    const { requestId, startsWithEmptyFrame, isTooLong } = exchange;
    if (isTooLong) return;
    if (startsWithEmptyFrame) await this.#socket.send(udpEmptyFrame(requestId), address);
    for (const answer of udpDatagrams(requestId, replies)) {
      await this.#socket.send(answer, address);
    }
  }
}
