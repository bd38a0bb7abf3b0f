import { pause } from "../chaos/disturbed.ts";
import { PatientClient } from "../chaos/patient_client.ts";
import type { Member, PatroniCluster } from "./cluster.ts";

const WRITE_EVERY_MS = 50;
const LOOK_EVERY_MS = 100;

/** Writes a row at a server, time and again. */
export class Prober {
  /** When the last write was acknowledged. */
  lastMs = performance.now();
  /** The longest time without an acknowledged write, and its end. */
  longest = { ms: 0, endMs: 0 };
  /** The last reply that was none of success. */
  refusal = "";
  #isOver = false;
  readonly #ended: Promise<void>;

  constructor(port: number) {
    this.#ended = this.#probe(port);
  }

  async #probe(port: number): Promise<void> {
    using client = new PatientClient(port);
    while (!this.#isOver) {
      const reply = await client.try("set probe 0 0 1\r\n1\r\n");
      if (reply === "STORED\r\n") {
        const endMs = performance.now();
        const ms = endMs - this.lastMs;
        if (ms > this.longest.ms) this.longest = { ms, endMs };
        this.lastMs = endMs;
      } else if (reply !== null) this.refusal = reply.trimEnd();
      await pause(WRITE_EVERY_MS);
    }
  }

  /** Forgets the longest time. */
  reset(): void {
    this.longest = { ms: 0, endMs: 0 };
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }
}

/** Watches when Patroni makes a member the leader. */
export class Promotions {
  readonly #events: { readonly member: Member; readonly ms: number }[] = [];
  #isOver = false;
  readonly #ended: Promise<unknown>;

  constructor(cluster: PatroniCluster) {
    this.#ended = Promise.all(cluster.members.map((member) => this.#watch(member)));
  }

  async #watch(member: Member): Promise<void> {
    let isPrimary = false;
    while (!this.#isOver) {
      const wasPrimary = isPrimary;
      isPrimary = await member.is("primary");
      if (isPrimary && !wasPrimary) this.#events.push({ member, ms: performance.now() });
      await pause(LOOK_EVERY_MS);
    }
  }

  /** Returns the last promotion since a time, if there was any. */
  since(ms: number): { readonly member: Member; readonly ms: number } | undefined {
    return this.#events.findLast((event) => event.ms > ms);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }
}
