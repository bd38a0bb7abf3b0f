import { addressOf, linkOf, type LinkOptions, nameOf } from "./address.ts";
import { checkNumber } from "../checks.ts";
import { KetamaRing } from "./ring.ts";
import { Server } from "./server.ts";

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
  /** Called when a connection has ended without `close`. */
  onDown: () => void = () => {};

  /** @throws RangeError, TypeError: a server or an option is wrong. */
  constructor(
    servers: ServerNames,
    options: LinkOptions & { readonly connections?: number },
  ) {
    const { connections = 1 } = options;
    checkNumber("connections", connections, 1, CONNECTIONS_MAX);
    const link = linkOf(options);
    const weighted = [servers].flat().map((each) => {
      const isWeighted = typeof each === "object" && each !== null;
      const { server, weight } = isWeighted ? each : { server: each, weight: 1 };
      const address = addressOf(server);
      const name = nameOf(address);
      checkNumber(`weight of ${name}`, weight, 1, WEIGHT_MAX);
      return { name, weight, server: new Server(address, link, connections, () => this.onDown()) };
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

  /** Closes all connections; requests in progress fail. Resolves when no socket is left. */
  async close(): Promise<void> {
    this.#closer.abort();
    await Promise.all(this.all.map((server) => server.close()));
  }
}
