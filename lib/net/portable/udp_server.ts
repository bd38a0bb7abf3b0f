import { type Conversation, ConversationState } from "../../../protocol/conversation.ts";
import { NO_OWNER } from "../../../store/connections.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import type { TransportContext, UdpListen } from "../transport.ts";
import {
  binaryRequestEnd,
  UDP_HEADER_BYTES,
  udpDatagrams,
  udpEmptyFrame,
  udpRequestId,
} from "./udp_frames.ts";

/** Answers to one datagram beyond this are dropped: nobody puts them together. */
const REPLY_BYTES_MAX = 64 * 1024 * 1024;
const NOTHING = new Uint8Array();

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
        for (const answer of this.#answers(requestId, datagram)) {
          await this.#socket.send(answer, address);
        }
      } catch (error) {
        // Whatever the network says of one peer (unreachable, too long) is no matter to the others.
        if (!this.#closed && !(error instanceof Error && "code" in error)) throw error;
      }
    }
  }

  /**
   * Executes the requests of a datagram; one that is not complete is dropped. Like memcached, answers a quiet binary
   * request at the start of a datagram, and a lone `quit`, with an empty frame.
   */
  #answers(requestId: number, datagram: Uint8Array): Iterable<Uint8Array> {
    const { thread, protocols } = this.#context;
    const conversation = protocols.open(NO_OWNER, {
      protocol: this.#listen.protocol,
      udp: true,
    });
    const payload = datagram.subarray(UDP_HEADER_BYTES);
    thread.input.bytes.set(payload);
    const firstEnd = binaryRequestEnd(payload);
    const first = this.#execute(conversation, 0, firstEnd > 0 ? firstEnd : payload.length);
    const isOver = conversation.state === ConversationState.CLOSING;
    const rest = firstEnd > 0 && !isOver && firstEnd < payload.length
      ? this.#execute(conversation, firstEnd, payload.length)
      : NOTHING;
    conversation.end();
    const answers = [...udpDatagrams(requestId, first), ...udpDatagrams(requestId, rest)];
    if (first.length === 0 && (firstEnd > 0 || isOver)) answers.unshift(udpEmptyFrame(requestId));
    return answers;
  }

  /** Executes requests in the thread's input [start, end). */
  #execute(conversation: Conversation, start: number, end: number): Uint8Array {
    const { reply } = this.#context.thread;
    const parts: Uint8Array[] = [];
    let length = 0;
    do {
      reply.reset();
      start = conversation.feed(start, end);
      parts.push(reply.region.bytes.slice(0, reply.length));
      length += reply.length;
    } while (conversation.state === ConversationState.MORE_OUTPUT && length <= REPLY_BYTES_MAX);
    return length <= REPLY_BYTES_MAX ? concat(parts, length) : NOTHING;
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
