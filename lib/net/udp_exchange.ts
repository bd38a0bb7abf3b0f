import { type Conversation, ConversationState } from "../../protocol/conversation.ts";
import type { WireProtocol } from "../../protocol/settings.ts";
import { ByteRegion, copyBytes } from "../../store/base/bytes.ts";
import type { TransportContext } from "./worker_transport.ts";
import { binaryRequestEnd } from "./udp_frames.ts";

/**
 * Executes the requests of one datagram, in slices. A request that is not complete is dropped. Like memcached, a quiet
 * binary request at the start of a datagram, and a lone `quit`, are answered with an empty frame.
 */
export class UdpExchange {
  /** Whether nothing is left to execute. */
  isOver = false;
  /** Whether an empty frame goes before the replies. */
  startsWithEmptyFrame = false;
  readonly #context: TransportContext;
  readonly #conversation: Conversation;
  readonly #isBinary: boolean;
  /** The memory that holds the requests. */
  #from: ByteRegion;
  /** The requests to execute now are [at, stop): first one binary request, or all of them; then the rest. */
  #at: number;
  #stop: number;
  #end: number;
  #replyBytes = 0;
  readonly #readAtUs: number;

  /** @param from Memory with the requests in [start, end); unchanged until they are executed or `keep` is called. */
  constructor(
    context: TransportContext,
    protocol: WireProtocol,
    readonly requestId: number,
    from: ByteRegion,
    start: number,
    end: number,
  ) {
    this.#context = context;
    const { times } = context.thread;
    times.readClock();
    this.#readAtUs = times.clockUs[0]!;
    this.#conversation = context.services[protocol].openDatagram();
    const firstEnd = binaryRequestEnd(from.bytes, start, end);
    this.#isBinary = firstEnd > 0;
    this.#from = from;
    this.#at = start;
    this.#stop = this.#isBinary ? firstEnd : end;
    this.#end = end;
  }

  /** Whether the replies are longer than `--udp-reply-max`: none of them may be sent. */
  get isTooLong(): boolean {
    return this.#replyBytes > this.#context.options.udpReplyMaxBytes;
  }

  /** Whether requests are left after the slice. */
  get isSliceOver(): boolean {
    return !this.isOver && this.#conversation.state === ConversationState.UNFINISHED;
  }

  /** Executes one slice. The replies are appended to the thread's reply buffer, which must hold no value segments. */
  step(): void {
    const { input, reply, times } = this.#context.thread;
    const conversation = this.#conversation;
    const length = this.#stop - this.#at;
    copyBytes(input, 0, this.#from, this.#at, length);
    const replyStart = reply.length;
    times.beginLate(this.#readAtUs);
    this.#at += conversation.feed(0, length);
    times.endLate();
    this.#replyBytes += reply.length - replyStart;
    const { state } = conversation;
    if (state === ConversationState.UNFINISHED && !this.isTooLong) return;
    const isClosing = state === ConversationState.CLOSING;
    if (this.#replyBytes === 0 && (this.#isBinary || isClosing)) this.startsWithEmptyFrame = true;
    this.isOver = isClosing || this.isTooLong || this.#stop === this.#end;
    this.#at = this.#stop;
    this.#stop = this.#end;
    if (this.isOver) conversation.end();
  }

  /** Drops the remaining requests. */
  abandon(): void {
    this.isOver = true;
    this.#conversation.end();
  }

  /** Copies the remaining requests, so that their memory can receive other datagrams. */
  keep(): void {
    const start = this.#at;
    this.#from = new ByteRegion(this.#from.bytes.slice(start, this.#end).buffer);
    this.#at = 0;
    this.#stop -= start;
    this.#end -= start;
  }
}
