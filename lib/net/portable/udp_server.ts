import { type Conversation, ConversationState } from "../../../protocol/conversation.ts";
import { NO_OWNER } from "../../../store/connections.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import type { FairScheduler } from "../fair_scheduler.ts";
import type { TransportContext, UdpListen } from "../transport.ts";
import {
  binaryRequestEnd,
  UDP_HEADER_BYTES,
  udpDatagrams,
  udpEmptyFrame,
  udpRequestId,
} from "./udp_frames.ts";

const NOTHING = new Uint8Array();

/** Serves one UDP socket: every datagram is a conversation of its own. */
export class UdpServer {
  readonly #socket: Deno.DatagramConn;
  readonly #listen: UdpListen;
  readonly #context: TransportContext;
  readonly #scheduler: FairScheduler;
  /** Longer replies to one datagram are dropped. */
  readonly #replyMaxBytes: number;
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
    this.#replyMaxBytes = context.options.udpReplyMaxBytes;
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
        for (const answer of await this.#answers(requestId, datagram.subarray(UDP_HEADER_BYTES))) {
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
  async #answers(requestId: number, payload: Uint8Array): Promise<Iterable<Uint8Array>> {
    const conversation = this.#context.protocols.open(NO_OWNER, {
      protocol: this.#listen.protocol,
      udp: true,
    });
    const firstEnd = binaryRequestEnd(payload);
    const first = await this.#execute(
      conversation,
      firstEnd > 0 ? payload.subarray(0, firstEnd) : payload,
    );
    const isOver = conversation.state === ConversationState.CLOSING;
    const rest = firstEnd > 0 && !isOver && firstEnd < payload.length
      ? await this.#execute(conversation, payload.subarray(firstEnd))
      : NOTHING;
    conversation.end();
    const answers = [...udpDatagrams(requestId, first), ...udpDatagrams(requestId, rest)];
    if (first.length === 0 && (firstEnd > 0 || isOver)) answers.unshift(udpEmptyFrame(requestId));
    return answers;
  }

  /** Executes requests, in slices. Gives up, with no reply at all, when the replies become too long. */
  async #execute(conversation: Conversation, requests: Uint8Array): Promise<Uint8Array> {
    const { reply, input, work } = this.#context.thread;
    const parts: Uint8Array[] = [];
    let length = 0;
    let at = 0;
    for (;;) {
      input.bytes.set(requests.subarray(at));
      reply.reset();
      at += conversation.feed(0, requests.length - at);
      length += reply.length;
      if (length > this.#replyMaxBytes) return NOTHING;
      parts.push(reply.region.bytes.slice(0, reply.length));
      const turn = this.#scheduler.charge(work.spent);
      if (turn !== null) await turn;
      if (conversation.state !== ConversationState.UNFINISHED || this.#closed) break;
    }
    return concat(parts, length);
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
