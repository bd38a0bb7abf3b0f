import type { Way } from "./plan.ts";
import type { Process, World } from "./world.ts";

/** How the network behaves: times in milliseconds of virtual time. */
export interface NetworkOptions {
  /** Each packet takes so long at least, and up to twice that. */
  readonly latencyMs: number;
  /** Share of writes that arrive in several pieces. */
  readonly splitShare: number;
  /** Share of packets that are lost once, and sent again. */
  readonly lossShare: number;
}

/** What one end of a connection is told. */
export interface Receiver {
  received(bytes: Uint8Array): void;
  /** The other side sends nothing more. */
  ended(): void;
  /** The connection is gone, and perhaps bytes with it. */
  broken(): void;
}

/** Takes the connections of an address. */
type Accept = (end: End) => Receiver;

interface Listener {
  readonly process: Process;
  readonly accept: Accept;
}

/** Between tries of a sender that gets no answer. */
const RETRY_MS = 20;
/** Before a packet that was lost is sent again. */
const RESEND_MS = 200;
/** A connection without an answer for so long breaks. */
const GIVE_UP_MS = 15_000;

/** One end of a connection: sends bytes in order, and receives them by its receiver. */
export class End {
  readonly host: string;
  readonly process: Process;
  /** Set when the connection is made. */
  receiver!: Receiver;
  other!: End;
  isOpen = true;
  /** Whether its host is gone, which nobody was told. */
  isGone = false;
  readonly #network: Network;
  /** When the last packet to the other end arrives. */
  #arrivesMs = 0;

  constructor(network: Network, host: string, process: Process) {
    this.#network = network;
    this.host = host;
    this.process = process;
  }

  /** Sends bytes, which the caller may change afterwards. */
  send(bytes: Uint8Array): void {
    if (!this.isOpen || bytes.length === 0) return;
    for (const piece of this.#network.pieces(bytes)) {
      this.#deliver(() => this.other.receiver.received(piece));
    }
  }

  /** Closes this end, when what was sent before has arrived. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#network.forget(this);
    this.#deliver(() => this.other.receiver.ended());
  }

  /** Breaks the connection: this end knows at once, the other one when it is told. */
  reset(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#network.forget(this);
    this.#deliver(() => this.other.break());
  }

  /** The connection breaks at this end. */
  break(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#network.forget(this);
    this.receiver.broken();
  }

  #deliver(act: () => void): void {
    const way = { from: this.host, to: this.other.host };
    const atMs = Math.max(this.#arrivesMs, this.#network.arrivalMs(way));
    this.#arrivesMs = atMs;
    this.#network.carry(this, atMs, act);
  }
}

/**
 * The network between hosts. A connection keeps its order. Hosts that are cut off from each other, and connections that
 * stall, get their packets later, as by TCP; one that gets none for long breaks.
 */
export class Network {
  readonly #world: World;
  readonly #listeners = new Map<string, Listener>();
  readonly #ends = new Set<End>();
  /** Pairs of hosts of which one does not reach the other, `from to`: how often they are cut. */
  readonly #cuts = new Map<string, number>();
  options: NetworkOptions;
  /** Added to the time of every packet, in milliseconds. */
  #slownessMs = 0;
  /** Added to the time of packets between two hosts. */
  readonly #slowWays = new Map<string, number>();
  /** Ends whose packets do not arrive, and nobody is told. */
  readonly #silent = new Set<End>();
  /** Packets that wait until their way is free, by the end that has sent them. */
  readonly #waiting = new Map<End, (() => void)[]>();

  /** Called with each end at which a packet has arrived, until they return true. */
  readonly #watchers = new Set<(to: End) => boolean>();

  constructor(world: World, options: NetworkOptions) {
    this.#world = world;
    this.options = options;
  }

  // --- connections ---------------------------------------------------------------------------------

  listen(process: Process, address: string, accept: Accept): void {
    this.#listeners.set(address, { process, accept });
    process.atEnd.add(() => this.close(process, address));
  }

  /** No connection is taken any more. */
  close(process: Process, address: string): void {
    if (this.#listeners.get(address)?.process === process) this.#listeners.delete(address);
  }

  /**
   * Connects.
   *
   * @param opened Called with this end when the connection is made; returns its receiver.
   * @param failed Called when nobody listens there.
   * @returns Gives up.
   */
  connect(
    from: Process,
    address: string,
    opened: (end: End) => Receiver,
    failed: () => void,
  ): () => void {
    const host = hostOf(from);
    const to = address.slice(0, address.indexOf(":"));
    let isGivenUp = false;
    const arrive = (): void => {
      const listener = this.#listeners.get(address);
      if (listener === undefined) {
        return this.#way(to, host, from, () => {
          if (!isGivenUp) failed();
        });
      }
      const near = new End(this, host, from);
      const far = new End(this, to, listener.process);
      near.other = far;
      far.other = near;
      far.receiver = near.receiver = IGNORES;
      this.#ends.add(near).add(far);
      // The kernel has accepted for a process that is stopped.
      this.#world.after(0, listener.process, () => {
        if (far.isOpen) far.receiver = listener.accept(far);
      });
      this.#way(to, host, from, () => {
        if (isGivenUp) near.reset();
        else if (near.isOpen) near.receiver = opened(near);
        else failed();
      }, () => near.reset());
    };
    this.#way(host, to, this.#world.nobody, arrive);
    return () => isGivenUp = true;
  }

  /**
   * Has something arrive at another host, as soon as it can be reached.
   *
   * @param lost Called when it could not be reached for long.
   */
  #way(
    from: string,
    to: string,
    process: Process,
    act: () => void,
    lost: () => void = () => {},
  ): void {
    const { nobody, nowMs } = this.#world;
    const retry = (): void => {
      if (!this.#cuts.has(nameOf({ from, to }))) this.#world.after(0, process, act);
      else if (this.#world.nowMs - nowMs > GIVE_UP_MS) lost();
      else this.#world.after(RETRY_MS, nobody, retry);
    };
    this.#world.at(this.arrivalMs({ from, to }), nobody, retry);
  }

  /** When a packet that is sent now arrives. */
  arrivalMs(way: Way): number {
    const { latencyMs, lossShare } = this.options;
    const { nowMs, random } = this.#world;
    const lossMs = lossShare > 0 && random() < lossShare ? RESEND_MS : 0;
    const slownessMs = this.#slownessMs + (this.#slowWays.get(nameOf(way)) ?? 0);
    return nowMs + slownessMs + lossMs + latencyMs * (1 + random());
  }

  /** Splits what is sent at once into the pieces that arrive. */
  *pieces(bytes: Uint8Array): Generator<Uint8Array> {
    if (bytes.length < 2 || this.#world.random() >= this.options.splitShare) {
      yield bytes.slice();
      return;
    }
    const at = 1 + this.#world.choose(bytes.length - 1);
    yield bytes.slice(0, at);
    yield bytes.slice(at);
  }

  /** Carries a packet to the other end. */
  carry(from: End, atMs: number, act: () => void): void {
    const to = from.other;
    this.#world.at(atMs, to.isGone ? this.#world.nobody : to.process, () => {
      if (!to.isOpen) return this.#refuse(from);
      const waiting = this.#waiting.get(from);
      if (waiting !== undefined) waiting.push(act);
      else if (this.#isBlocked(from)) this.#hold(from, act);
      else {
        act();
        this.#tell(to);
      }
    });
  }

  #tell(to: End): void {
    if (!to.isOpen) return;
    for (const watch of this.#watchers) if (watch(to)) this.#watchers.delete(watch);
  }

  /** The host knows nothing of a connection from before it was gone. */
  #refuse(from: End): void {
    const { isGone, host } = from.other;
    if (!isGone || !from.isOpen || !this.#isUp(host)) return;
    this.#way(host, from.host, from.process, () => from.break());
  }

  #isUp(host: string): boolean {
    return this.#listeners.keys().some((address) => address.startsWith(`${host}:`));
  }

  #isBlocked(from: End): boolean {
    const way = { from: from.host, to: from.other.host };
    return this.#silent.has(from) || this.#cuts.has(nameOf(way));
  }

  /** Holds a packet, and those behind it, until the way is free. */
  #hold(from: End, act: () => void): void {
    const to = from.other;
    const queue = [act];
    this.#waiting.set(from, queue);
    const retry = (waitedMs: number): void => {
      this.#world.after(RETRY_MS, to.process, () => {
        if (to.isOpen && this.#isBlocked(from) && waitedMs < GIVE_UP_MS) {
          return retry(waitedMs + RETRY_MS);
        }
        this.#waiting.delete(from);
        if (waitedMs >= GIVE_UP_MS) {
          this.#world.after(0, from.process, () => from.break());
          to.break();
        }
        for (const each of queue) if (to.isOpen) each();
      });
    };
    retry(0);
  }

  forget(end: End): void {
    this.#ends.delete(end);
    this.#silent.delete(end);
  }

  // --- faults --------------------------------------------------------------------------------------

  /** Cuts one direction between two hosts. @returns Mends it. */
  cut(way: Way): () => void {
    return addTo(this.#cuts, nameOf(way), 1);
  }

  /** Has packets take longer. @param way Null: all packets. @returns Mends it. */
  slow(byMs: number, way: Way | null): () => void {
    if (way !== null) return addTo(this.#slowWays, nameOf(way), byMs);
    this.#slownessMs += byMs;
    return () => this.#slownessMs -= byMs;
  }

  /** Calls a function with the end at a host at which a packet of another one arrives next. */
  onPacket(host: string, isFrom: (other: string) => boolean, act: (to: End) => void): void {
    this.#watchers.add((to) => {
      const isIt = to.host === host && isFrom(to.other.host);
      if (isIt) act(to);
      return isIt;
    });
  }

  /** Returns the end of a connection at a host, if it has any. @param number Of the connection, modulo their count. */
  endAt(host: string, number: number): End | undefined {
    const ends = [...this.#ends].filter((end) => end.host === host);
    return ends[number % ends.length];
  }

  /** Both ends of a connection see it break; what is on the way is lost. */
  reset(end: End): void {
    const { other } = end;
    for (const each of [end, other]) {
      this.#world.after(0, each.process, () => each.break());
    }
  }

  /** What an end sends does not arrive any more, and nobody is told. */
  silence(end: End): void {
    this.#silent.add(end);
  }

  /** Lets silent ends speak again. */
  heal(): void {
    this.#silent.clear();
  }

  /** The kernel ends the connections of a process that has ended. @param isSilent Its host is gone, too. */
  endProcess(process: Process, isSilent: boolean): void {
    for (const end of [...this.#ends]) {
      if (end.process !== process) continue;
      if (isSilent) {
        end.isOpen = false;
        end.isGone = true;
        this.forget(end);
        // It asks in vain; or its next packet is answered with a reset, when the host is there again.
        this.#world.after(GIVE_UP_MS, end.other.process, () => end.other.break());
      } else {
        end.reset();
      }
    }
  }

  // --- as the runtime has it -----------------------------------------------------------------------

  /** Connects as `Deno.connect` does. */
  connectAsRuntime(
    from: Process,
    hostname: string,
    port: number,
    signal?: AbortSignal,
  ): Promise<RuntimeConnection> {
    const { promise, resolve, reject } = Promise.withResolvers<RuntimeConnection>();
    const giveUp = this.connect(
      from,
      `${hostname}:${port}`,
      (end) => {
        const connection = new RuntimeConnection(end);
        resolve(connection);
        return connection;
      },
      () => reject(new Deno.errors.ConnectionRefused("Connection refused (os error 111)")),
    );
    signal?.addEventListener("abort", () => {
      giveUp();
      reject(signal.reason);
    });
    return promise;
  }
}

/** Before somebody takes what arrives. */
const IGNORES: Receiver = { received: () => {}, ended: () => {}, broken: () => {} };

function nameOf({ from, to }: Way): string {
  return `${from} ${to}`;
}

/** Adds to a number, which is 0 if it is not there. @returns Takes it away again. */
function addTo(numbers: Map<string, number>, name: string, more: number): () => void {
  numbers.set(name, (numbers.get(name) ?? 0) + more);
  return () => {
    const left = numbers.get(name)! - more;
    if (left <= 1e-9) numbers.delete(name);
    else numbers.set(name, left);
  };
}

/** The part of a process's name that is its host. */
export function hostOf({ name }: Process): string {
  const at = name.indexOf("#");
  return at < 0 ? name : name.slice(0, at);
}

/** A connection as the runtime has it. */
class RuntimeConnection implements Receiver {
  readonly #end: End;
  #received: Uint8Array[] = [];
  #isEnded = false;
  #error: Error | null = null;
  #reading:
    | { buffer: Uint8Array; resolve(count: number | null): void; reject(error: Error): void }
    | null = null;

  constructor(end: End) {
    this.#end = end;
  }

  received(bytes: Uint8Array): void {
    this.#received.push(bytes);
    this.#settle();
  }

  ended(): void {
    this.#isEnded = true;
    this.#settle();
  }

  broken(): void {
    this.#error ??= new Deno.errors.ConnectionReset("Connection reset by peer (os error 104)");
    this.#settle();
  }

  read(buffer: Uint8Array): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#reading = { buffer, resolve, reject };
      this.#settle();
    });
  }

  write(bytes: Uint8Array): Promise<number> {
    if (this.#error !== null) return Promise.reject(this.#error);
    this.#end.send(bytes);
    return Promise.resolve(bytes.length);
  }

  close(): void {
    if (this.#error instanceof Deno.errors.BadResource) throw this.#error;
    this.#error = new Deno.errors.BadResource("Bad resource ID");
    if (this.#received.length > 0) this.#end.reset();
    else this.#end.close();
    this.#settle();
  }

  setNoDelay(): void {}
  setKeepAlive(): void {}

  #settle(): void {
    const reading = this.#reading;
    if (reading === null) return;
    const [bytes] = this.#received;
    if (this.#error !== null) {
      this.#reading = null;
      reading.reject(this.#error);
    } else if (bytes !== undefined) {
      this.#reading = null;
      const count = Math.min(bytes.length, reading.buffer.length);
      reading.buffer.set(bytes.subarray(0, count));
      if (count === bytes.length) this.#received.shift();
      else this.#received[0] = bytes.subarray(count);
      reading.resolve(count);
    } else if (this.#isEnded) {
      this.#reading = null;
      reading.resolve(null);
    }
  }
}
