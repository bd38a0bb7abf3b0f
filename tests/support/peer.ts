import { assertLessOrEqual } from "@std/assert";
import { Cache } from "../../store/cache.ts";
import { writeClock } from "../../store/clock.ts";
import { checkStore } from "../../store/check.ts";
import { ConnectionKind, type OwnerId } from "../../store/connections.ts";
import { INPUT_BYTES, PENDING_BYTES_MAX, type StoreOptions } from "../../store/limits.ts";
import { createSharedMemory, Memory, type SharedMemory } from "../../store/memory.ts";
import {
  Conversation,
  type ConversationOptions,
  ConversationState,
} from "../../protocol/conversation.ts";
import { DEFAULT_SETTINGS, type Settings } from "../../protocol/settings.ts";
import { ThreadContext } from "../../protocol/thread_context.ts";
import { Tunables } from "../../protocol/tunables.ts";
import { storeOptions } from "./store.ts";

/** Bytes as a string of characters below 256, and back: what tests of protocols compare. */
export function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** A server without sockets: one thread, or several over one store, and a clock moved by hand. */
export class TestServer {
  readonly thread: ThreadContext;
  readonly settings: Settings;
  readonly shared: SharedMemory;
  /** Arguments of every call of the shutdown hook. */
  readonly shutdowns: boolean[] = [];
  readonly #memory: Memory;

  constructor(settings: Partial<Settings> = {}, options: Partial<StoreOptions> = {}) {
    this.settings = { ...DEFAULT_SETTINGS, threads: 1, ...settings };
    this.shared = createSharedMemory(storeOptions(options));
    this.#memory = new Memory(this.shared);
    Cache.format(this.#memory);
    this.thread = new ThreadContext(
      { memory: this.shared, tunables: Tunables.createShared(this.settings) },
      this.settings,
      {
        shutdown: (graceful) => this.shutdowns.push(graceful),
        processFacts: () => ({
          userMicroseconds: 1_500_000,
          systemMicroseconds: 250_001,
          accepting: true,
        }),
      },
    );
  }

  /** Opens a connection. */
  connect(options: Partial<ConversationOptions> = {}): Peer {
    return new Peer(this.thread, { protocol: "auto", ...options });
  }

  /** Moves the clock to so many milliseconds after the start. */
  clock(milliseconds: number): void {
    writeClock(this.#memory, milliseconds);
  }

  check(): void {
    checkStore(this.#memory);
  }
}

/** The client's end of a connection, and the transport between: it keeps what `feed` does not consume, as transports do. */
export class Peer {
  readonly conversation: Conversation;
  closed = false;
  readonly #thread: ThreadContext;
  readonly #id: OwnerId;
  #pending = new Uint8Array(0);

  constructor(thread: ThreadContext, options: ConversationOptions) {
    this.#thread = thread;
    this.#id = thread.connections.open(ConnectionKind.TCP, 0, "tcp:test:1", "tcp:test:2", 2);
    this.conversation = new Conversation(thread, this.#id, options);
  }

  /**
   * Sends bytes (a string's characters are bytes; `|` is nothing special) and returns what came back.
   *
   * @param pieceLength How many bytes arrive at a time.
   */
  send(request: string | Uint8Array, pieceLength = INPUT_BYTES): string {
    return latin1(this.sendBytes(request, pieceLength));
  }

  sendBytes(request: string | Uint8Array, pieceLength = INPUT_BYTES): Uint8Array {
    const bytes = typeof request === "string" ? bytesOf(request) : request;
    const replies: Uint8Array[] = [];
    for (let at = 0; at < bytes.length && !this.closed;) {
      const room = Math.min(pieceLength, INPUT_BYTES - this.#pending.length);
      const piece = bytes.subarray(at, at + room);
      at += piece.length;
      this.#receive(piece, replies);
    }
    return concat(replies);
  }

  /** Bytes the server waits to have completed. */
  get pendingLength(): number {
    return this.#pending.length;
  }

  disconnect(): void {
    this.closed = true;
    this.conversation.end();
    this.#thread.connections.close(this.#id);
  }

  #receive(piece: Uint8Array, replies: Uint8Array[]): void {
    const { input, reply } = this.#thread;
    const received = concat([this.#pending, piece]);
    input.bytes.set(received, 0);
    let at = 0;
    for (;;) {
      reply.reset();
      at = this.conversation.feed(at, received.length);
      if (reply.length > 0) replies.push(reply.region.bytes.slice(0, reply.length));
      if (this.conversation.state !== ConversationState.MORE_OUTPUT) break;
    }
    this.#pending = received.slice(at);
    if (this.conversation.state === ConversationState.CLOSING) this.disconnect();
    else assertLessOrEqual(this.#pending.length, PENDING_BYTES_MAX);
  }
}

function concat(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const joined = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}
