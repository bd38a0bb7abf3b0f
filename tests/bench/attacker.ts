/// <reference lib="deno.worker" />
// A thread of clients that misbehave, for `fairness_rows.ts`.
import { DatabaseSync } from "node:sqlite";
import { bytesOf } from "../support/sessions/side.ts";
import { type Batch, Batches, Client, type Dialogue, Generator } from "./base/generator.ts";
import { Connections } from "./base/sockets.ts";
import { serve } from "./base/workers.ts";

export const ATTACKS = ["none", "large", "closed", "unread", "idle", "locked"] as const;
export type Attack = typeof ATTACKS[number];

/** Rows of 1 MB. */
export const LARGE_KEYS = Array.from({ length: 10 }, (_, index) => `large:${index}`);
export const LARGE_VALUE = "v".repeat(1_000_000);

const READERS = 200;
const IDLE = 10_000;
const UNREAD = 1000;
const WRITERS = 8;
/** Requests that a client sends before it leaves, or before it stops reading. */
const PIPELINED = 20;
/** Between two crowds of clients that leave at once: as fast as they can, they would measure the machine. */
const LEAVE_MS = 250;

const stack: Disposable[] = [];
let run: (seconds: number) => void = sleep;

export type AttackHandlers = typeof handlers;
const handlers = serve({
  /** Connects the clients. @param file A file of SQLite to lock; "": none. */
  open(attack: Attack, port: number, file: string): void {
    run = sleep;
    if (attack === "idle") connect(port, IDLE);
    if (attack === "unread") sendOnly(connect(port, UNREAD), () => largeGets);
    if (attack === "closed") run = (seconds) => leaveAgainAndAgain(port, seconds);
    if (attack === "large") load(port, READERS, new Batches(LARGE_KEYS.map(largeGet)));
    if (attack !== "locked") return;
    if (file !== "") lock(file);
    load(port, WRITERS, WRITES);
  },
  run: (seconds: number): void => run(seconds),
  close(): void {
    for (const each of stack.splice(0)) each[Symbol.dispose]();
  },
});

function sleep(seconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
}

function connect(port: number, count: number): Connections<Client> {
  const connections = new Connections(port, count, (fd, index) => new Client(fd, index));
  stack.push({ [Symbol.dispose]: () => connections.close() });
  return connections;
}

/** Sends what the kernel takes. */
function sendOnly(clients: Connections<Client>, bytes: (index: number) => Uint8Array): void {
  for (const { fd, index } of clients.all) clients.send(fd, bytes(index));
}

function load<C extends Client>(port: number, count: number, dialogue: Dialogue<C>): void {
  const generator = new Generator(port, count, dialogue);
  stack.push(generator);
  run = (seconds) => void generator.run({ seconds });
}

function lock(file: string): void {
  const database = new DatabaseSync(file);
  database.exec("BEGIN EXCLUSIVE");
  stack.push({ [Symbol.dispose]: () => database.close() });
}

function largeGet(key: string): Batch {
  const reply = `VALUE ${key} 0 ${LARGE_VALUE.length}\r\n${LARGE_VALUE}\r\nEND\r\n`;
  return { bytes: bytesOf(`get ${key}\r\n`), reply, count: 1 };
}

const largeGets = bytesOf(
  Array.from({ length: PIPELINED }, (_, at) => `get ${LARGE_KEYS[at % LARGE_KEYS.length]}\r\n`)
    .join(""),
);

/** Short rows that are stored again and again, with any reply. */
const WRITES: Dialogue = {
  connect: (fd, index) => new Client(fd, index),
  next: ({ index }) => bytesOf(`set written:${index} 0 0 1\r\n1\r\n`),
  take: (_client, input, length) => input[length - 1] === 0x0a ? 1 : 0,
};

/** Connects many clients, which ask for much and leave at once. */
function leaveAgainAndAgain(port: number, seconds: number): void {
  const endMs = performance.now() + seconds * 1000;
  for (let round = 0; performance.now() < endMs; round++) {
    const nextMs = performance.now() + LEAVE_MS;
    const absent = (index: number): string[] =>
      Array.from({ length: 100 }, (_, at) => `absent:${round}:${index}:${at}`);
    const clients = connect(port, READERS);
    sendOnly(clients, (index) => bytesOf(`get ${absent(index).join(" ")}\r\n`));
    sendOnly(clients, () => largeGets);
    handlers.close();
    sleep(Math.max(0, nextMs - performance.now()) / 1000);
  }
}
