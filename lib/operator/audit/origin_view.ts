import { readServerAddress } from "../../cli/listen.ts";
import type { DialOptions } from "../../peers/dial.ts";
import { type Address, Peer, type ValueDigest } from "../../peers/peer.ts";

/** A row of the database. */
export interface Committed {
  /** Null: the row does not exist. */
  readonly value: ValueDigest | null;
  /** 0: never written. */
  readonly version: string;
  /** `C`: a cache may keep it; `N`: it must not. */
  readonly mark: string;
}

/** Nodes that the origin may name at most. */
const NAMES_MAX = 10_000;

/** Names of nodes without --node-name, by the address they listen on; every address of a host is none to connect to. */
const LISTENER = /^tcp6?:(?!0\.0\.0\.0:|\[::\]:)/;

/** Returns the address that is a node's name; null: it is a name of --node-name. */
function addressIn(name: string): Address | null {
  try {
    return LISTENER.test(name) ? readServerAddress(name.replace(LISTENER, "")) : null;
  } catch {
    return null;
  }
}

/** The database, as the audit sees it through the origin. */
export class OriginView {
  readonly #peer: Peer;

  private constructor(peer: Peer) {
    this.#peer = peer;
  }

  /** @throws PeerError */
  static async connect(
    address: Address,
    options: DialOptions,
  ): Promise<OriginView> {
    return new OriginView(await Peer.connect(address, options));
  }

  /** Returns the members among the nodes that have their names from their addresses. @throws PeerError */
  async nodes(): Promise<Address[]> {
    await this.#peer.send("nodes\r\n");
    const addresses: Address[] = [];
    for (let lines = 0; lines < NAMES_MAX; lines++) {
      const line = await this.#peer.line();
      if (line === "END") return addresses;
      const [, name, state] = /^NODE (\S+) (\S+) /.exec(line) ?? [];
      if (name === undefined) throw this.#peer.unexpected("nodes", line);
      if (state !== "member") continue;
      const address = addressIn(name);
      if (address !== null) addresses.push(address);
    }
    throw this.#peer.error(`names more than ${NAMES_MAX} nodes`);
  }

  /** Reads rows. @returns In the order of the keys. @throws PeerError */
  async read(keys: readonly string[]): Promise<Committed[]> {
    await this.#peer.send(`uread ${keys.join(" ")}\r\n`);
    const rows: Committed[] = [];
    for (const key of keys) rows.push(await this.#row(key));
    const end = await this.#peer.line();
    if (end !== "END") throw this.#peer.unexpected("uread", end);
    return rows;
  }

  async #row(key: string): Promise<Committed> {
    const line = await this.#peer.line();
    const words = line.split(" ");
    if (words[1] === key && words[0] === "NONE" && words.length === 4) {
      return { value: null, version: words[2]!, mark: words[3]! };
    }
    const flags = words[2] ?? "";
    if (
      words[1] !== key || words[0] !== "VALUE" || words.length !== 6 || !/^\d{1,10}$/.test(flags)
    ) {
      throw this.#peer.unexpected("uread", line);
    }
    const value = await this.#peer.value(Number(flags), words[3]);
    return { value, version: words[4]!, mark: words[5]! };
  }

  close(): void {
    this.#peer.close();
  }
}
