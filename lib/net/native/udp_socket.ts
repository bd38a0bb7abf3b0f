// Hot path of UDP: a datagram whose requests fit one slice allocates its conversation only.
import type { WireProtocol } from "../../../protocol/settings.ts";
import { ROUND_UNITS } from "../../../protocol/work_budget.ts";
import { ByteRegion, concatBytes } from "../../../store/base/bytes.ts";
import { STAT } from "../../../store/stats.ts";
import type { TransportContext } from "../worker_transport.ts";
import { UdpExchange } from "../udp_exchange.ts";
import {
  putUdpHeader,
  UDP_HEADER_BYTES,
  UDP_PAYLOAD_BYTES_MAX,
  udpDatagramCount,
  udpReplyEnd,
  udpRequestId,
} from "../udp_frames.ts";
import { addressOf, MessageVector, PEER_BYTES } from "./iovec.ts";
import {
  EAGAIN,
  EINTR,
  type Libc,
  MSG_DONTWAIT,
  MSG_NOSIGNAL,
  SO_MEMINFO,
  SOL_SOCKET,
} from "./libc.ts";

/** Datagrams that one system call receives. */
const RECEIVES_MAX = 32;
/** Bytes of a slot: any datagram fits. Short datagrams touch only the start of a slot's memory. */
const SLOT_BYTES = 64 * 1024;
/** Datagrams that one system call sends. */
const SENDS_MAX = 64;
/** Most datagrams whose execution is unfinished; at this number the socket receives no more. */
const UNFINISHED_MAX = 64;

/** SO_MEMINFO fills 32-bit words, one of them with the number of datagrams that the kernel dropped. */
const MEMINFO_WORDS = 9;
const MEMINFO_DROPS = 8;

/** A datagram whose execution is unfinished: its replies so far, and its sender. */
interface Unfinished {
  readonly exchange: UdpExchange;
  readonly replies: Uint8Array[];
  readonly peer: Uint8Array<ArrayBuffer>;
}

/** Serves one UDP socket. Datagrams are received and answered in bursts. */
export class NativeUdp {
  readonly #context: TransportContext;
  readonly #libc: Libc;
  readonly #fd: number;
  readonly #protocol: WireProtocol;
  readonly #received = new ByteRegion(new ArrayBuffer(RECEIVES_MAX * SLOT_BYTES));
  readonly #peers = new Uint8Array(RECEIVES_MAX * PEER_BYTES);
  readonly #peersAddress: number;
  readonly #incoming = new MessageVector(RECEIVES_MAX, 1);
  /** Messages to send: a header and a piece of a reply each. */
  readonly #outgoing = new MessageVector(SENDS_MAX, 2);
  readonly #headers = new Uint8Array(SENDS_MAX * UDP_HEADER_BYTES);
  readonly #headersAddress: number;
  readonly #repliesAddress: number;
  #sendCount = 0;
  readonly #unfinished: Unfinished[] = [];
  readonly #memInfo = new Uint32Array(MEMINFO_WORDS);
  readonly #memInfoLength = new Int32Array(1);
  #dropCount = 0;

  constructor(context: TransportContext, libc: Libc, fd: number, protocol: WireProtocol) {
    this.#context = context;
    this.#libc = libc;
    this.#fd = fd;
    this.#protocol = protocol;
    this.#peersAddress = addressOf(this.#peers);
    this.#headersAddress = addressOf(this.#headers);
    this.#repliesAddress = addressOf(context.thread.reply.region.bytes);
    const receivedAddress = addressOf(this.#received.bytes);
    for (let index = 0; index < RECEIVES_MAX; index++) {
      this.#incoming.setPeer(index, this.#peersAddress + index * PEER_BYTES, PEER_BYTES);
      this.#incoming.setPiece(index, 0, receivedAddress + index * SLOT_BYTES, SLOT_BYTES);
    }
  }

  /** Whether unfinished datagrams wait for another slice. */
  get isUnfinished(): boolean {
    return this.#unfinished.length > 0;
  }

  /**
   * Receives and answers datagrams until none is left or other sockets must be served. Uses the thread's whole reply
   * buffer, whose replies must have been sent, and leaves it empty.
   */
  serve(): void {
    const { reply } = this.#context.thread;
    const sharesValues = reply.valueSegments.enabled;
    reply.valueSegments.enabled = false;
    reply.reset();
    let units = this.#serveUnfinished();
    let burst = 0;
    while (units < ROUND_UNITS && this.#unfinished.length < UNFINISHED_MAX) {
      const count = this.#receive();
      if (count <= 0) break;
      burst += count;
      for (let index = 0; index < count; index++) units += this.#serveDatagram(index);
      this.#send();
      if (count < RECEIVES_MAX) break;
    }
    reply.reset();
    reply.valueSegments.enabled = sharesValues;
    // A single datagram does not fill the receive buffer.
    if (burst > 1) this.#countDrops();
  }

  #receive(): number {
    const incoming = this.#incoming;
    incoming.resetPeers(PEER_BYTES);
    return this.#libc.calls.recvmmsg(this.#fd, incoming.words, RECEIVES_MAX, MSG_DONTWAIT, null);
  }

  /** Executes a received datagram's requests for one slice, two for binary ones. @returns The work done. */
  #serveDatagram(index: number): number {
    const start = index * SLOT_BYTES;
    const end = start + this.#incoming.length(index);
    const requestId = udpRequestId(this.#received.bytes, start, end);
    if (requestId < 0) return 1;
    const { reply, work } = this.#context.thread;
    if (reply.length > reply.capacity / 2) this.#send();
    const exchange = new UdpExchange(
      this.#context,
      this.#protocol,
      requestId,
      this.#received,
      start + UDP_HEADER_BYTES,
      end,
    );
    const repliesStart = reply.length;
    let units = 0;
    do {
      reply.begin(1);
      exchange.step();
      units += work.spent;
    } while (!exchange.isOver && !exchange.isSliceOver);
    const peerAddress = this.#peersAddress + index * PEER_BYTES;
    const peerBytes = this.#incoming.peerBytes(index);
    if (exchange.isOver) {
      const { bytes } = reply.region;
      const replyAddress = this.#repliesAddress;
      this.#answer(
        exchange,
        peerAddress,
        peerBytes,
        bytes,
        replyAddress,
        repliesStart,
        reply.length,
      );
      return units;
    }
    const peerStart = index * PEER_BYTES;
    exchange.keep();
    this.#unfinished.push({
      exchange,
      replies: [reply.region.bytes.slice(repliesStart, reply.length)],
      // A copied array could lie on V8's heap and move; a buffer does not.
      peer: new Uint8Array(this.#peers.buffer.slice(peerStart, peerStart + peerBytes)),
    });
    reply.length = repliesStart;
    return units;
  }

  /** Executes one slice of each unfinished datagram. @returns The work done. */
  #serveUnfinished(): number {
    const { reply, work } = this.#context.thread;
    let units = 0;
    for (let left = this.#unfinished.length; left > 0 && units < ROUND_UNITS; left--) {
      const unfinished = this.#unfinished.shift()!;
      const { exchange, replies } = unfinished;
      reply.reset();
      exchange.step();
      units += work.spent;
      replies.push(reply.region.bytes.slice(0, reply.length));
      if (exchange.isOver) this.#answerUnfinished(unfinished);
      else this.#unfinished.push(unfinished);
    }
    reply.reset();
    return units;
  }

  #answerUnfinished({ exchange, replies, peer }: Unfinished): void {
    const bytes = concatBytes(replies);
    this.#answer(exchange, addressOf(peer), peer.length, bytes, addressOf(bytes), 0, bytes.length);
    this.#send();
  }

  /** Queues the replies [start, end) of `bytes`, which are at `address`, for one peer. */
  #answer(
    { requestId, startsWithEmptyFrame, isTooLong }: UdpExchange,
    peerAddress: number,
    peerBytes: number,
    bytes: Uint8Array,
    address: number,
    start: number,
    end: number,
  ): void {
    if (isTooLong) return;
    if (startsWithEmptyFrame) this.#queue(requestId, 0, 0, peerAddress, peerBytes, 0, 0);
    while (start < end) {
      const replyEnd = udpReplyEnd(bytes, start, end);
      const datagramCount = udpDatagramCount(replyEnd - start);
      for (let number = 0; number < datagramCount; number++) {
        const from = start + number * UDP_PAYLOAD_BYTES_MAX;
        const length = Math.min(UDP_PAYLOAD_BYTES_MAX, replyEnd - from);
        this.#queue(
          requestId,
          number,
          datagramCount,
          peerAddress,
          peerBytes,
          address + from,
          length,
        );
      }
      start = replyEnd;
    }
  }

  #queue(
    requestId: number,
    number: number,
    datagramCount: number,
    peerAddress: number,
    peerBytes: number,
    pieceAddress: number,
    length: number,
  ): void {
    if (this.#sendCount === SENDS_MAX) this.#sendQueued();
    const index = this.#sendCount++;
    const header = index * UDP_HEADER_BYTES;
    putUdpHeader(this.#headers, header, requestId, number, datagramCount);
    this.#outgoing.setPeer(index, peerAddress, peerBytes);
    this.#outgoing.setPiece(index, 0, this.#headersAddress + header, UDP_HEADER_BYTES);
    this.#outgoing.setPiece(index, 1, pieceAddress, length);
  }

  /** Sends the queued datagrams, and empties the reply buffer. */
  #send(): void {
    this.#sendQueued();
    this.#context.thread.reply.reset();
  }

  /** Sends the queued datagrams. Drops those that the network refuses, as UDP permits. */
  #sendQueued(): void {
    const { calls } = this.#libc;
    let from = 0;
    while (from < this.#sendCount) {
      const messages = this.#outgoing.from(from);
      const sent = calls.sendmmsg(this.#fd, messages, this.#sendCount - from, MSG_NOSIGNAL);
      if (sent > 0) from += sent;
      else if (this.#libc.errno === EAGAIN) break;
      else if (this.#libc.errno !== EINTR) from++;
    }
    this.#sendCount = 0;
  }

  #countDrops(): void {
    this.#memInfoLength[0] = this.#memInfo.byteLength;
    const { calls } = this.#libc;
    const length = this.#memInfoLength;
    if (calls.getsockopt(this.#fd, SOL_SOCKET, SO_MEMINFO, this.#memInfo, length) !== 0) return;
    const dropCount = this.#memInfo[MEMINFO_DROPS]!;
    // The kernel's counter has 32 bits.
    const dropped = (dropCount - this.#dropCount) >>> 0;
    if (dropped === 0) return;
    this.#dropCount = dropCount;
    this.#context.thread.memory.stats[STAT.udp_dropped]! += dropped;
  }
}
