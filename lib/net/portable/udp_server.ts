import { ConversationState } from "../../../protocol/conversation.ts";
import { NO_OWNER } from "../../../store/connections.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import type { TransportContext, UdpListen } from "../transport.ts";
import { UDP_HEADER_BYTES, udpDatagrams, udpRequestId } from "./udp_frames.ts";

/** Answers to one datagram beyond this are dropped: nobody puts them together. */
const REPLY_BYTES_MAX = 64 * 1024 * 1024;

/** Serves one UDP socket: every datagram is a conversation of its own. */
export class UdpServer {
  readonly #socket: Deno.DatagramConn;
  readonly #listen: UdpListen;
  readonly #context: TransportContext;
  #closed = false;

  constructor(socket: Deno.DatagramConn, listen: UdpListen, context: TransportContext) {
    this.#socket = socket;
    this.#listen = listen;
    this.#context = context;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.close();
  }

  async serve(): Promise<void> {
    const buffer = new Uint8Array(INPUT_BYTES);
    while (!this.#closed) {
      try {
        const [datagram, address] = await this.#socket.receive(buffer);
        const requestId = udpRequestId(datagram);
        if (requestId < 0) continue;
        const replies = this.#execute(datagram);
        for (const answer of udpDatagrams(requestId, replies)) {
          await this.#socket.send(answer, address);
        }
      } catch (error) {
        // Whatever the network says of one peer (unreachable, too long) is no matter to the others.
        if (!this.#closed && !(error instanceof Error && "code" in error)) throw error;
      }
    }
  }

  /** Executes the requests of a datagram. One that is not complete is dropped. */
  #execute(datagram: Uint8Array): Uint8Array {
    const { thread, protocols } = this.#context;
    const { input, reply } = thread;
    const conversation = protocols.open(NO_OWNER, {
      protocol: this.#listen.protocol,
      udp: true,
    });
    input.bytes.set(datagram.subarray(UDP_HEADER_BYTES));
    const parts: Uint8Array[] = [];
    let length = 0;
    let start = 0;
    const end = datagram.length - UDP_HEADER_BYTES;
    do {
      reply.reset();
      start = conversation.feed(start, end);
      parts.push(reply.region.bytes.slice(0, reply.length));
      length += reply.length;
    } while (conversation.state === ConversationState.MORE_OUTPUT && length <= REPLY_BYTES_MAX);
    conversation.end();
    return length <= REPLY_BYTES_MAX ? concat(parts, length) : new Uint8Array();
  }
}

function concat(parts: readonly Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
