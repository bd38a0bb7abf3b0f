/// <reference lib="deno.worker" />
// The client of the allocation test over sockets. It must be another thread: the one that serves blocks.
import { Connections, type LoadClient } from "../../bench/base/sockets.ts";
import { Lifecycle, LifecyclePhase } from "../../../lib/process/lifecycle.ts";
import { opcodeOf, packetText } from "../sessions/binary_text.ts";
import { ALLOCATION_TRIES, PRELOAD, REQUESTS } from "./feed_loop.ts";
import { bytesOf } from "../sessions/side.ts";
import type { LoadStart } from "../servers/native_in_process.ts";

/** Requests in one batch. */
const IN_FLIGHT = 50;
/**
 * Batches before the first measurement. The engine compiles the code that all requests share, and recompiles it after
 * an unexpected type, such as statistics among other requests. On a busy machine that takes a while.
 */
export const WARM_UPS = 30;
const WARM_UP_ROUNDS = 200;
/** Rounds of every try. */
export const ROUNDS = 100;
const NOOP = packetText({ opcode: opcodeOf("Noop") });

// Its test imports this module too.
if (self.name === "load") {
  self.onmessage = ({ data }: MessageEvent<LoadStart>) => {
    drive(data);
    self.postMessage("");
    self.close();
  };
  self.postMessage("ready");
}

function drive({ port, lifecycle, tls }: LoadStart): void {
  const client = new BlockingClient(port, tls);
  for (const request of PRELOAD.split("set ").slice(1)) client.ask(`set ${request}`, "STORED\r\n");
  const first = new BlockingClient(port, tls);
  for (let warmUp = 0; warmUp < WARM_UPS; warmUp++) {
    client.ask("stats\r\n", "END\r\n");
    first.exchange(groupsOf(Object.values(REQUESTS)[0]!, false), WARM_UP_ROUNDS);
  }
  first.close();
  for (const [name, requests] of Object.entries(REQUESTS)) {
    const load = new BlockingClient(port, tls);
    const groups = groupsOf(requests, name.startsWith("binary"));
    load.exchange(groups, WARM_UP_ROUNDS);
    for (let attempt = 0; attempt < ALLOCATION_TRIES; attempt++) {
      // The server notes its allocations at each request for statistics; the first two show the
      // cost of such a request itself.
      client.ask("stats\r\n", "END\r\n");
      client.ask("stats\r\n", "END\r\n");
      load.exchange(groups, ROUNDS);
      client.ask("stats\r\n", "END\r\n");
    }
    load.close();
  }
  new Lifecycle(lifecycle).phase = LifecyclePhase.STOPPING;
  client.ask("mn\r\n", "");
  client.close();
}

interface Group {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** End of the reply. */
  readonly end: Uint8Array;
}

function groupsOf(requests: readonly string[], binary: boolean): Group[] {
  const groups: Group[] = [];
  const end = bytesOf(binary ? `\x81${NOOP.slice(1)}` : "MN\r\n");
  for (let at = 0; at < requests.length; at += IN_FLIGHT) {
    const group = requests.slice(at, at + IN_FLIGHT).join("");
    groups.push({ bytes: bytesOf(group + (binary ? NOOP : "mn\r\n")), end });
  }
  return groups;
}

class BlockingClient {
  readonly #connections: Connections<LoadClient>;
  readonly #fd: number;
  readonly #input = new Uint8Array(256 * 1024);

  constructor(port: number, tls: boolean) {
    this.#connections = new Connections(port, 1, (fd) => ({ fd }), tls);
    this.#fd = this.#connections.all[0]!.fd;
  }

  /** Sends a request and waits for a reply that ends so; "": for none. */
  ask(request: string, end: string): void {
    this.#exchange({ bytes: bytesOf(request), end: bytesOf(end) });
  }

  exchange(groups: readonly Group[], rounds: number): void {
    for (let round = 0; round < rounds; round++) for (const group of groups) this.#exchange(group);
  }

  #exchange({ bytes, end }: Group): void {
    const { input } = this.#connections;
    if (this.#connections.send(this.#fd, bytes) < bytes.length) throw new Error("Cannot send");
    for (let received = 0; end.length > 0 && !this.#endsWith(received, end);) {
      const count = this.#connections.receive(this.#fd, 0);
      this.#input.set(input.subarray(0, count), received);
      received += count;
    }
  }

  #endsWith(length: number, end: Uint8Array): boolean {
    if (length < end.length) return false;
    // The first and the last byte would do, but not for the end of a value.
    for (let at = 0; at < end.length; at++) {
      if (this.#input[length - end.length + at] !== end[at]) return false;
    }
    return true;
  }

  close(): void {
    this.#connections.close();
  }
}
