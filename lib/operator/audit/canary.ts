import { createHash } from "node:crypto";
import type { DialOptions } from "../../peers/dial.ts";
import { type Address, addressText, Peer, PeerError } from "../../peers/peer.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { OriginView } from "./origin_view.ts";

/** A cache, and how to connect to it. */
export interface Target {
  readonly address: Address;
  readonly dial: DialOptions;
}

/** What a read has returned: the number of a write; 0: none of this canary, or nothing. */
type WriteNumber = number;

/** A read that returned less than it had to. */
export interface WrongRead {
  readonly cache: string;
  readonly key: string;
  readonly read: WriteNumber;
  /** The last write that was acknowledged, or read by anybody, before the read began. */
  readonly expected: WriteNumber;
}

/** Receives the findings while the canary runs. */
export interface CanaryObserver {
  /** The cache answers with an older value than the database has. */
  stale(read: WrongRead): void;
  /** The database itself lacks a write that was acknowledged, or another program writes the key. */
  lost(read: WrongRead): void;
  /** The origin or a cache has failed, which had answered before; it counts what follows until it answers again. */
  failed(error: PeerError): void;
}

/** Counts of a canary. */
export interface CanaryCounts {
  /** Acknowledged. */
  writes: number;
  /** Without a reply, or with an error. */
  unwritten: number;
  /** Of all caches. */
  reads: number;
  unread: number;
  stale: number;
  lost: number;
}

/** What the canary does. */
export interface CanaryOptions {
  readonly keys: readonly string[];
  /** Between two writes of a key, in milliseconds. */
  readonly intervalMs: number;
  /** Writes of each key; 0: until it is stopped. */
  readonly rounds: number;
}

/** Longest value that a canary has written. */
const VALUE_LENGTH_MAX = 100;

/**
 * Writes keys through the origin, and reads them in caches as any client does: a read that begins after a write was
 * acknowledged, or after another read has returned it, must not return an older one. It knows nothing of rights,
 * leases, clocks and the log.
 */
export class Canary {
  readonly counts: CanaryCounts = {
    ...{ writes: 0, unwritten: 0, reads: 0, unread: 0, stale: 0, lost: 0 },
  };
  readonly #options: CanaryOptions;
  readonly #observer: CanaryObserver;
  readonly #origin: Target;
  readonly #writer: Link;
  readonly #readers: readonly Link[];
  /** Tells its values from those of another run. */
  readonly #run = crypto.randomUUID();

  constructor(
    origin: Target,
    caches: readonly Target[],
    options: CanaryOptions,
    observer: CanaryObserver,
  ) {
    this.#options = options;
    this.#observer = observer;
    this.#origin = origin;
    this.#writer = new Link(origin);
    this.#readers = caches.map((cache) => new Link(cache));
  }

  /** Runs until its rounds are over, or the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { keys, intervalMs, rounds } = this.#options;
    const known = keys.map((key): Known => ({ key, sent: 0, floor: 0, unknown: new Set() }));
    for (let round = 1; !signal.aborted; round++) {
      const next = Promise.withResolvers<void>();
      const timer = setTimeout(next.resolve, intervalMs);
      const stop = (): void => next.resolve();
      signal.addEventListener("abort", stop);
      for (const each of known) await this.#round(each);
      if (round === rounds) stop();
      await next.promise;
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      if (round === rounds) break;
    }
    for (const link of [this.#writer, ...this.#readers]) link.close();
  }

  /** Writes a key once, and reads it during the write and behind it. */
  async #round(known: Known): Promise<void> {
    known.sent++;
    await Promise.all([this.#write(known), this.#readAll(known)]);
    await this.#readAll(known);
  }

  async #write(known: Known): Promise<void> {
    const { key, sent } = known;
    const value = this.#valueOf(sent);
    known.unknown.add(sent);
    try {
      await this.#writer.ask(async (peer) => {
        await peer.send(`set ${key} 0 0 ${value.length}\r\n${value}\r\n`);
        const line = await peer.line();
        if (line !== "STORED") throw peer.unexpected(`set ${key}`, line);
      });
      this.counts.writes++;
      known.unknown.delete(sent);
      known.floor = Math.max(known.floor, sent);
    } catch (error) {
      this.counts.unwritten++;
      this.#fail(error, this.#writer);
    }
  }

  async #readAll(known: Known): Promise<void> {
    await Promise.all(this.#readers.map((reader) => this.#read(known, reader)));
  }

  async #read(known: Known, reader: Link): Promise<void> {
    const { key, floor: expected } = known;
    try {
      const read = await reader.ask((peer) => readValue(peer, key, this.#run));
      this.counts.reads++;
      if (read >= expected) known.floor = Math.max(known.floor, read);
      else if (!known.unknown.has(read)) await this.#judge(known, reader.name, read, expected);
    } catch (error) {
      this.counts.unread++;
      this.#fail(error, reader);
    }
  }

  async #judge(
    known: Known,
    cache: string,
    read: WriteNumber,
    expected: WriteNumber,
  ): Promise<void> {
    const end = await this.#hasLost(known, expected) ? "lost" : "stale";
    this.counts[end]++;
    this.#observer[end]({ cache, key: known.key, read, expected });
  }

  /** Whether the database says that it has no write from `expected` on. */
  async #hasLost({ key, sent }: Known, expected: WriteNumber): Promise<boolean> {
    const { address, dial } = this.#origin;
    let view: OriginView | undefined;
    try {
      view = await OriginView.connect(address, dial);
      const [row] = await view.read([key]);
      const committed = row!.value?.sha256;
      for (let number = expected; number <= sent; number++) {
        if (committed === sha256(this.#valueOf(number))) return false;
      }
      return true;
    } catch (error) {
      this.#fail(error, this.#writer);
      return false;
    } finally {
      view?.close();
    }
  }

  #valueOf(number: WriteNumber): string {
    return `${this.#run} ${number}`;
  }

  #fail(error: unknown, { failures }: Link): void {
    if (!(error instanceof PeerError)) throw error;
    if (failures === 1) this.#observer.failed(error);
  }
}

/** What is known of a key. */
interface Known {
  readonly key: string;
  /** The number of the last write that was sent. */
  sent: WriteNumber;
  /** The newest that was acknowledged or read: no read that begins now may return less. */
  floor: WriteNumber;
  /** Writes that may take effect later, or never. */
  readonly unknown: Set<WriteNumber>;
}

/** A connection that is opened when it is needed, and again after a failure. */
class Link {
  readonly name: string;
  readonly #target: Target;
  /** In a row. */
  failures = 0;
  #peer: Peer | null = null;

  constructor(target: Target) {
    this.#target = target;
    this.name = addressText(target.address);
  }

  /** @throws PeerError */
  async ask<Reply>(exchange: (peer: Peer) => Promise<Reply>): Promise<Reply> {
    const { address, dial } = this.#target;
    try {
      this.#peer ??= await Peer.connect(address, dial);
      const reply = await exchange(this.#peer);
      this.failures = 0;
      return reply;
    } catch (error) {
      this.failures++;
      this.close();
      throw error;
    }
  }

  close(): void {
    this.#peer?.close();
    this.#peer = null;
  }
}

/** @throws PeerError */
async function readValue(peer: Peer, key: string, run: string): Promise<WriteNumber> {
  await peer.send(`get ${key}\r\n`);
  const first = await peer.line();
  if (first === "END") return 0;
  const [, digits] = /^VALUE \S+ \d+ (\d{1,10})$/.exec(first) ?? [];
  if (digits === undefined) throw peer.unexpected(`get ${key}`, first);
  const length = Number(digits);
  if (length > VALUE_LENGTH_MAX) throw peer.error(`another program writes ${key}`);
  const block = await peer.block(length + 2);
  const end = await peer.line();
  if (end !== "END") throw peer.unexpected(`get ${key}`, end);
  const [writer, number = ""] = latin1Text(block, 0, length).split(" ");
  return writer === run && /^\d{1,15}$/.test(number) ? Number(number) : 0;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
