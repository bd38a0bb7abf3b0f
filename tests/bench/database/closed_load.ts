/// <reference lib="deno.worker" />
// A thread with clients that each have one request in flight, and take the time of every reply.
import { Connections, type LoadClient } from "../sockets.ts";
import { quantile } from "../table.ts";

/** The thread's job. It answers with a LoadResult. */
export interface ClosedLoad {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly command: "get" | "set";
  /** Keys are `key:` and a number below this. */
  readonly keys: number;
  /** Whether each key is read once only, and the load ends with the last one. */
  readonly isOnce: boolean;
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export const VALUE = "v".repeat(100);
const ENCODER = new TextEncoder();
/** Replies at most; later ones are counted without their time. */
const SAMPLES_MAX = 2_000_000;

export function keyOf(number: number): string {
  return `key:${String(number).padStart(8, "0")}`;
}

/** Returns p50 and p99. */
export function quantilesOf(latenciesMs: Float64Array): Omit<LoadResult, "perSecond"> {
  const sorted = latenciesMs.toSorted();
  return { p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) };
}

interface Client extends LoadClient {
  sentMs: number;
  received: number;
}

/** Runs the load to its end. @throws On a wrong reply. */
function run({ port, connections: count, seconds, command, keys, isOnce }: ClosedLoad): LoadResult {
  const connections = new Connections<Client>(
    port,
    count,
    (fd) => ({ fd, sentMs: 0, received: 0 }),
  );
  const { epoll, all, input } = connections;
  const requests = requestsOf(command, keys);
  const replyLength = command === "set"
    ? "STORED\r\n".length
    : `VALUE ${keyOf(0)} 0 ${VALUE.length}\r\n${VALUE}\r\nEND\r\n`.length;
  const latenciesMs = new Float64Array(SAMPLES_MAX);
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  let next = 0;
  let replies = 0;
  let busy = 0;
  const send = (client: Client): void => {
    if (performance.now() >= endMs || (isOnce && next === keys)) return;
    busy++;
    client.sentMs = performance.now();
    client.received = 0;
    connections.send(client.fd, requests[isOnce ? next++ : Math.floor(Math.random() * keys)]!);
  };
  for (const client of all) send(client);
  while (busy > 0) {
    const ready = epoll.wait(-1);
    for (let index = 0; index < ready; index++) {
      const client = connections.ready(index);
      client.received += connections.receive(client.fd);
      if (client.received < replyLength) checkShort(input, client.received);
      if (client.received < replyLength) continue;
      latenciesMs[Math.min(replies++, SAMPLES_MAX - 1)] = performance.now() - client.sentMs;
      busy--;
      send(client);
    }
  }
  const elapsedSec = (performance.now() - startMs) / 1000;
  connections.close();
  const taken = latenciesMs.subarray(0, Math.min(replies, SAMPLES_MAX));
  return { perSecond: replies / elapsedSec, ...quantilesOf(taken) };
}

/** @throws When a short reply is an error, or says that there is no row. */
function checkShort(input: Uint8Array, length: number): void {
  const text = new TextDecoder().decode(input.subarray(0, length));
  if (/^(?:END|SERVER_ERROR|ERROR)/.test(text)) throw new Error(`wrong reply: ${text}`);
}

function requestsOf(command: "get" | "set", keys: number): Uint8Array[] {
  return Array.from({ length: keys }, (_, number) => {
    const key = keyOf(number);
    const text = command === "get"
      ? `get ${key}\r\n`
      : `set ${key} 0 0 ${VALUE.length}\r\n${VALUE}\r\n`;
    return ENCODER.encode(text);
  });
}

if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
  self.onmessage = ({ data }: MessageEvent<ClosedLoad>) => self.postMessage(run(data));
}
