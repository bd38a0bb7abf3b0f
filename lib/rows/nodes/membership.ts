import { reasonOf } from "../../reason.ts";
import type { TransportEvent } from "../../net/transport.ts";
import type { Right } from "../flows/flows.ts";
import type { NodeLink } from "./node_source.ts";
import { mayPass, OriginClient, OriginRefusal } from "./origin_client.ts";
import type { Address } from "../../peers/peer.ts";
import type { DialOptions } from "../../peers/dial.ts";
import * as wire from "./wire.ts";

/** First pause after all origins have refused; each further one is twice as long. */
const PAUSE_MS = 100;
const PAUSE_MS_MAX = 1000;

/** What a membership needs of its node. */
export interface NodeWorld {
  readonly right: Right;
  readonly name: string;
  readonly prefixes: readonly string[];
  readonly expiry: string;
  readonly dial: DialOptions;
  /** Removes all rows from the cache. */
  dropRows(): Promise<void>;
  deleteRows(keys: readonly string[]): void;
  report(event: TransportEvent): void;
  sleep(ms: number): Promise<void>;
}

/** An origin, as the option names it. */
export interface OriginAddress extends Address {
  readonly name: string;
}

/**
 * The membership of a node: joins an origin without rows, then asks it again and again which keys to delete. Each
 * answer renews the right to serve rows, counted from before the question was sent.
 */
export class Membership implements NodeLink {
  client: OriginClient | null = null;
  session = "";
  problem: string;
  /** Memberships that have begun. */
  joins = 0;
  readonly #origins: readonly OriginAddress[];
  readonly #world: NodeWorld;
  /** Asks for deletions, with a shorter time-out. */
  #renewer: OriginClient | null = null;
  #isStopping = false;

  constructor(origins: readonly OriginAddress[], world: NodeWorld) {
    this.#origins = origins;
    this.#world = world;
    this.problem = `no membership of ${origins.map(({ name }) => name).join(", ")}`;
  }

  /**
   * Tries each origin once.
   *
   * @returns Whether this node is a member now.
   * @throws The error of an origin that will not take this node; not one of the network.
   */
  async begin(): Promise<boolean> {
    for (const origin of this.#origins) {
      try {
        await this.#join(origin);
        return true;
      } catch (error) {
        this.#leave(error);
        const cause = error instanceof Error ? error.cause : undefined;
        if (!mayPass(error) || isRefusedLogin(cause)) throw error;
      }
    }
    return false;
  }

  /** Keeps the membership until `stop`. */
  async run(): Promise<void> {
    let pauseMs = PAUSE_MS;
    while (!this.#isStopping) {
      try {
        if (this.client === null && !await this.begin()) throw new Error(this.problem);
        pauseMs = PAUSE_MS;
        await this.#serve();
      } catch (error) {
        this.#leave(error);
        if (this.#isStopping) return;
        await this.#world.sleep(pauseMs);
        pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
      }
    }
  }

  stop(): void {
    this.#isStopping = true;
    this.client?.close();
    this.#renewer?.close();
  }

  async #join(origin: OriginAddress): Promise<void> {
    const { right, name, prefixes, expiry, dial } = this.#world;
    const old = this.session;
    this.session = "";
    right.renew(0);
    // What was read under the session before is filled before the rows go.
    await this.#world.sleep(0);
    await this.#world.dropRows();
    const client = new OriginClient(origin.name, origin, dial);
    const join: wire.Join = { version: wire.WIRE_VERSION, name, session: old, prefixes, expiry };
    const block = new TextEncoder().encode(JSON.stringify(join));
    const sentMs = right.nowMs();
    const joined = wire.unpackJoined(await client.ask("join", "", 0, block));
    this.client = client;
    const timeoutMs = Math.min(dial.timeoutMs, joined.memberMs);
    this.#renewer = new OriginClient(origin.name, origin, { ...dial, timeoutMs });
    this.session = joined.session;
    right.renew(sentMs + joined.grantedMs);
    this.joins++;
    this.#report("info", "joined_origin", `member of origin ${origin.name}`, "");
  }

  /** Asks for deletions until something fails. A connection that broke is made once more. */
  async #serve(): Promise<void> {
    const { right } = this.#world;
    let confirmed = 0;
    let hasFailed = false;
    while (!this.#isStopping) {
      const sentMs = right.nowMs();
      let block: Uint8Array;
      try {
        block = await this.#renewer!.ask("poll", this.session, confirmed, new Uint8Array());
        hasFailed = false;
      } catch (error) {
        if (hasFailed || error instanceof OriginRefusal) throw error;
        hasFailed = true;
        continue;
      }
      const { seq, grantedMs, keys } = wire.unpackDue(block);
      if (keys.length > 0) this.#world.deleteRows(keys);
      confirmed = Math.max(confirmed, seq);
      right.renew(sentMs + grantedMs);
    }
  }

  /** Gives the membership up: rows that are there may miss deletions from here on. */
  #leave(error: unknown): void {
    const wasMember = this.client !== null;
    this.#world.right.renew(0);
    this.client?.close();
    this.#renewer?.close();
    this.client = null;
    if (this.#isStopping) return;
    const reason = reasonOf(error);
    const names = this.#origins.map(({ name }) => name).join(", ");
    const problem = `no membership of ${names}: ${reason}`;
    if (wasMember || this.problem !== problem) {
      this.#report(
        "warning",
        "left_origin",
        `${problem}; rows are errors until it is back`,
        reason,
      );
    }
    this.problem = problem;
  }

  #report(level: TransportEvent["level"], event: string, message: string, reason: string): void {
    this.#world.report({ level, event, message, fields: { reason } });
  }
}

/** Whether the origin was reached, and did not take the name and the password, or its certificate does not fit. */
function isRefusedLogin(cause: unknown): boolean {
  return /the login of user|certificate|TLS/i.test(reasonOf(cause));
}
