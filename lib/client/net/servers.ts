import { addressOf, linkOf, type LinkOptions, nameOf } from "./address.ts";
import { checkNumber, shown } from "../checks.ts";
import { Listeners } from "../events.ts";
import { KetamaRing } from "./ring.ts";
import { Server, type ServerWatcher } from "./server.ts";

/** A server, and its weight on the ring: a whole number from 1 to 2^32 - 1; of a server without one it is 1. */
export interface WeightedServer {
  readonly server: string;
  readonly weight: number;
}

/** One or more servers: `host:port`, or the path of a Unix socket. */
export type ServerNames = string | readonly (string | WeightedServer)[];

const CONNECTIONS_MAX = 64;
const WEIGHT_MAX = 2 ** 32 - 1;

/** The servers of a client, which its namespaces share. */
export class Servers {
  readonly all: readonly Server[];
  readonly #ring: KetamaRing<Server> | undefined;
  readonly #closer = new AbortController();
  /** Aborts when they are closed. */
  readonly closing: AbortSignal = this.#closer.signal;
  readonly listeners: Listeners = new Listeners();
  /** Requests that were the first ones to servers that were down. */
  tries = 0;
  /** Called when a connection has ended without `close`. */
  onLost: () => void = () => {};

  /** @throws RangeError, TypeError: a server or an option is wrong. */
  constructor(
    servers: ServerNames,
    options: LinkOptions & { readonly connections?: number },
  ) {
    const { connections = 1 } = options;
    checkNumber("connections", connections, 1, CONNECTIONS_MAX);
    const link = linkOf(options);
    const watcher: ServerWatcher = {
      lost: () => this.onLost(),
      tries: () => this.tries++,
      down: (server, error) => this.listeners.emit("down", { server, error }),
      up: (server) => this.listeners.emit("up", { server }),
    };
    const weighted = [servers].flat().map((each) => {
      const isWeighted = typeof each === "object" && each !== null && "server" in each;
      const { server, weight } = isWeighted ? each : { server: each, weight: 1 };
      const address = addressOf(server);
      const name = nameOf(address);
      checkNumber(`weight of ${name}`, weight, 1, WEIGHT_MAX);
      return { name, weight, server: new Server(address, link, connections, watcher) };
    });
    if (weighted.length === 0) throw new RangeError("a client needs at least one server");
    this.all = weighted.map(({ server }) => server);
    this.#ring = weighted.length === 1 ? undefined : new KetamaRing(weighted);
  }

  /** @param key Its bytes, one character a byte. */
  of(key: string): Server {
    return this.#ring === undefined ? this.all[0]! : this.#ring.of(key);
  }

  /** Lets the process end while no request waits for a reply. */
  unref(): void {
    for (const server of this.all) server.unref();
  }

  /** Whether a server is up, or all. @throws RangeError, TypeError: there is no such server. */
  areUp(server?: string): boolean {
    if (server === undefined) return this.all.every(({ isUp }) => isUp);
    const named = nameOf(addressOf(server));
    const found = this.all.filter(({ name }) => name === named);
    if (found.length > 0) return found.every(({ isUp }) => isUp);
    const known = this.all.map(({ name }) => name).join(" ");
    throw new RangeError(`server ${shown(server)}: expected one of ${known}`);
  }

  /** Closes all connections; requests in progress fail. Resolves when no socket is left. */
  async close(): Promise<void> {
    this.#closer.abort();
    await Promise.all(this.all.map((server) => server.close()));
  }
}
