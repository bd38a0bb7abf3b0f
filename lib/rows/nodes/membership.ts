import type { KeySet } from "../../databases/views/key_set.ts";
import { reasonOf } from "../../process/reason.ts";
import type { TransportEvent } from "../../net/transport.ts";
import type { Right } from "../flows/flows.ts";
import {
  type Due,
  type NodeFlow,
  NodeFlows,
  type NodeResult,
  type NodeStep,
} from "../flows/node_flows.ts";
import { runFlow } from "../../flow/flow.ts";
import type { NodeLink } from "./node_source.ts";
import { isMalformed, mayPass, OriginClient, OriginRefusal } from "./origin_client.ts";
import type { Address } from "../../peers/peer.ts";
import type { DialOptions } from "../../peers/dial.ts";
import * as wire from "./wire.ts";

/** First pause after all origins have refused; each further one is twice as long. */
const PAUSE_MS = 100;
/** Short beside the time that a stand-by waits for nodes: clients wait for both. */
const PAUSE_MS_MAX = 250;
/** Pause after an origin has sent something malformed: it may do so again, and each time is logged. */
const MALFORMED_PAUSE_MS = 1000;
/** Pause after an empty answer that came sooner than this. An origin that sends only these must not take a core. */
const EMPTY_PAUSE_MS = 1;

/** The part of its node that a membership uses. */
export interface MembershipContext {
  readonly right: Right;
  readonly name: string;
  readonly prefixes: readonly string[];
  readonly expiry: string;
  readonly dial: DialOptions;
  /** Removes rows from the cache. */
  delete(rows: KeySet): Promise<void> | void;
  report(event: TransportEvent): void;
  sleep(ms: number): Promise<void>;
}

/** An origin, as the option names it. */
export interface OriginAddress extends Address {
  readonly name: string;
}

/** The membership of a node: joins an origin, then asks it again and again which keys to delete. */
export class Membership implements NodeLink {
  client: OriginClient | null = null;
  readonly flows: NodeFlows;
  problem: string;
  /** Memberships that have begun. */
  joins = 0;
  readonly #origins: readonly OriginAddress[];
  readonly #context: MembershipContext;
  /** Asks for deletions, with a shorter time-out. */
  #renewer: OriginClient | null = null;
  /** How long a renewal lasts at most, as the origin has said. */
  #memberMs = 0;
  #isStopping = false;

  constructor(origins: readonly OriginAddress[], context: MembershipContext) {
    this.#origins = origins;
    this.#context = context;
    this.flows = new NodeFlows(context.right);
    this.problem = `no membership of ${origins.map(({ name }) => name).join(", ")}`;
  }

  /**
   * Tries each origin once.
   *
   * @returns Whether this node is a member now.
   * @throws The error of an origin that will not take this node; not one of the network.
   */
  async begin(): Promise<boolean> {
    const reasons: string[] = [];
    for (const origin of this.#origins) {
      try {
        await this.#join(origin);
        return true;
      } catch (error) {
        const cause = error instanceof Error ? error.cause : undefined;
        if (!mayPass(error) || isRefusedLogin(cause)) {
          this.#leave(reasonOf(error));
          throw error;
        }
        reasons.push(reasonOf(error));
      }
    }
    this.#leave(reasons.join("; "));
    return false;
  }

  /** Keeps the membership until `stop`. */
  async run(): Promise<void> {
    let pauseMs = PAUSE_MS;
    while (!this.#isStopping) {
      try {
        if (this.client !== null || await this.begin()) {
          pauseMs = PAUSE_MS;
          await this.#run(this.flows.serve());
        }
      } catch (error) {
        if (this.#isStopping) return;
        this.#leave(reasonOf(error));
        if (isMalformed(error)) pauseMs = MALFORMED_PAUSE_MS;
      }
      if (this.#isStopping) return;
      await this.#context.sleep(pauseMs);
      pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
    }
  }

  /** Ends the membership. Call it when no thread serves connections any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    try {
      if (this.client !== null) await runFlow(this.flows.signOff(), (step) => this.#take(step));
    } catch {
      // The origin waits until the time of this node is over.
    }
    this.client?.close();
    this.#renewer?.close();
  }

  async #join(origin: OriginAddress): Promise<void> {
    await this.#run(this.flows.join(), origin);
    const again = this.joins++ === 0 ? "" : " again, without rows";
    const message = `node ${this.#context.name} is a member of origin ${origin.name}${again}`;
    this.#report("info", "joined_origin", message, "");
  }

  /** Runs a flow until `stop`. @param origin The one to join. @throws The end of the membership. */
  async #run(flow: NodeFlow<void>, origin?: OriginAddress): Promise<void> {
    await runFlow(flow, (step) => {
      if (this.#isStopping) throw new Error("this node ends");
      return this.#take(step, origin);
    });
  }

  #take(step: NodeStep, origin?: OriginAddress): Promise<NodeResult> | NodeResult {
    switch (step.kind) {
      case "delete":
        return this.#context.delete(step);
      case "join":
        return this.#askToJoin(origin!, step.session);
      case "poll":
        return this.#poll(step);
      case "leave":
        return this.#signOff(step.session);
      case "read":
        throw new Error("rows are read by their source");
    }
  }

  async #askToJoin(origin: OriginAddress, session: string): Promise<wire.SentJoined> {
    const { name, prefixes, expiry, dial } = this.#context;
    const client = new OriginClient(origin.name, origin, dial);
    const join: wire.Join = { version: wire.WIRE_VERSION, name, session, prefixes, expiry };
    const block = new TextEncoder().encode(JSON.stringify(join));
    const joined = wire.unpackJoined(
      await client.ask("join", "", 0, block, wire.JOINED_BYTES_MAX),
    );
    this.client = client;
    this.#memberMs = joined.memberMs;
    const timeoutMs = Math.min(dial.timeoutMs, joined.memberMs);
    this.#renewer = new OriginClient(origin.name, origin, { ...dial, timeoutMs });
    return joined;
  }

  async #signOff(session: string): Promise<void> {
    await this.#renewer!.ask("leave", session, 0, new Uint8Array(), 0);
  }

  async #poll({ session, confirmed, mayBreak }: NodeStep & { kind: "poll" }): Promise<Due | null> {
    let block: Uint8Array;
    const askedMs = this.#context.right.nowMs();
    try {
      const nothing = new Uint8Array();
      block = await this.#renewer!.ask("poll", session, confirmed, nothing, wire.DUE_BYTES_MAX);
    } catch (error) {
      if (mayBreak && !(error instanceof OriginRefusal)) return null;
      throw error;
    }
    const due = wire.unpackDue(block, confirmed, this.#memberMs);
    if (due.seq === 0 && this.#context.right.nowMs() - askedMs < EMPTY_PAUSE_MS) {
      await this.#context.sleep(EMPTY_PAUSE_MS);
    }
    return due;
  }

  /** Gives the membership up: rows that are there may miss deletions from here on. */
  #leave(reason: string): void {
    const wasMember = this.client !== null;
    this.flows.leave();
    this.client?.close();
    this.#renewer?.close();
    this.client = null;
    if (this.#isStopping) return;
    const names = this.#origins.map(({ name }) => name).join(", ");
    const problem = `no membership of ${names}: ${reason}`;
    if (wasMember || this.problem !== problem) {
      this.#report(
        "warning",
        "left_origin",
        `node ${this.#context.name} has ${problem}; rows are errors until it is back`,
        reason,
      );
    }
    this.problem = problem;
  }

  #report(level: TransportEvent["level"], event: string, message: string, reason: string): void {
    const { name } = this.#context;
    this.#context.report({ level, event, message, fields: { node: name, reason } });
  }
}

/** Whether the origin was reached, and did not take the name and the password, or its certificate does not fit. */
function isRefusedLogin(cause: unknown): boolean {
  return /the login of user|certificate|TLS/i.test(reasonOf(cause));
}
