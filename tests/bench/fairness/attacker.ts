/// <reference lib="deno.worker" />
// A thread of clients that misbehave, for `rows.ts`.
import { DatabaseSync } from "node:sqlite";
import { bytesOf } from "../../support/sessions/side.ts";
import { connect, send } from "./clients.ts";

export const ATTACKS = ["none", "large", "closed", "unread", "idle", "locked"] as const;
export type Attack = typeof ATTACKS[number];

/** What to do next. Answered when it is done. */
export type AttackOrder =
  | {
    readonly kind: "start";
    readonly attack: Attack;
    readonly port: number;
    /** A file of SQLite to lock; "": none. */
    readonly file: string;
  }
  | { readonly kind: "stop" };

/** Rows of 1 MB. */
export const LARGE_KEYS = 10;
export const LARGE_BYTES = 1_000_000;

const READERS = 200;
const IDLE = 10_000;
const UNREAD = 1000;
const WRITERS = 8;
/** Connections that are made at once. */
const AT_ONCE = 100;
/** Requests that a client sends before it leaves, or before it stops reading. */
const PIPELINED = 20;
/** Between two crowds of clients that leave at once: as fast as they can, they would measure the machine. */
const LEAVE_MS = 250;

let connections: Deno.Conn[] = [];
let isOver = false;
let work: Promise<unknown> = Promise.resolve();
let database: DatabaseSync | undefined;

self.onmessage = async ({ data }: MessageEvent<AttackOrder>) => {
  await (data.kind === "start" ? start(data) : stop());
  self.postMessage(null);
};

export function largeKey(index: number): string {
  return `large:${index % LARGE_KEYS}`;
}

async function start({ attack, port, file }: AttackOrder & { kind: "start" }): Promise<void> {
  isOver = false;
  switch (attack) {
    case "none":
      return;
    case "large":
      await open(port, READERS);
      work = Promise.all(connections.map(readLarge));
      return;
    case "closed":
      work = leaveAgainAndAgain(port);
      return;
    case "unread":
      await open(port, UNREAD);
      work = Promise.all(connections.map((each, index) => sendOnly(each, largeGets(index))));
      return;
    case "idle":
      await open(port, IDLE);
      return;
    case "locked":
      if (file !== "") {
        database = new DatabaseSync(file);
        database.exec("BEGIN EXCLUSIVE");
      }
      await open(port, WRITERS);
      work = Promise.all(connections.map(write));
      return;
  }
}

async function stop(): Promise<void> {
  isOver = true;
  for (const each of connections) each.close();
  connections = [];
  database?.close();
  database = undefined;
  await work;
}

async function open(port: number, count: number): Promise<void> {
  while (connections.length < count) {
    const some = Math.min(AT_ONCE, count - connections.length);
    connections.push(...await Promise.all(Array.from({ length: some }, () => connect(port))));
  }
}

/** Gets large rows one after the other. */
async function readLarge(connection: Deno.Conn, index: number): Promise<void> {
  const key = largeKey(index);
  const replyBytes = `VALUE ${key} 0 ${LARGE_BYTES}\r\n`.length + LARGE_BYTES +
    "\r\nEND\r\n".length;
  const request = bytesOf(`get ${key}\r\n`);
  const buffer = new Uint8Array(256 * 1024);
  await untilClosed(async () => {
    await send(connection, request);
    for (let left = replyBytes; left > 0;) left -= await connection.read(buffer) ?? left;
  });
}

/** Stores a short row again and again. */
async function write(connection: Deno.Conn, index: number): Promise<void> {
  const request = bytesOf(`set written:${index} 0 0 1\r\n1\r\n`);
  const buffer = new Uint8Array(1024);
  await untilClosed(async () => {
    await send(connection, request);
    await connection.read(buffer);
  });
}

/** Connects many clients, which ask for much and leave at once. */
async function leaveAgainAndAgain(port: number): Promise<void> {
  for (let round = 0; !isOver; round++) {
    const next = new Promise((resolve) => setTimeout(resolve, LEAVE_MS));
    const leaving = await Promise.all(Array.from({ length: READERS }, () => connect(port)));
    await Promise.all(leaving.map(async (each, index) => {
      const absent = Array.from({ length: 100 }, (_, at) => `absent:${round}:${index}:${at}`);
      await sendOnly(each, bytesOf(`get ${absent.join(" ")}\r\n`));
      await sendOnly(each, largeGets(index));
      each.close();
    }));
    await next;
  }
}

function largeGets(index: number): Uint8Array {
  const lines = Array.from({ length: PIPELINED }, (_, at) => `get ${largeKey(index + at)}\r\n`);
  return bytesOf(lines.join(""));
}

async function sendOnly(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  await untilClosed(() => send(connection, bytes), true);
}

/** Acts until `stop` has closed the connection. */
async function untilClosed(act: () => Promise<unknown>, isOnce = false): Promise<void> {
  try {
    do await act(); while (!isOver && !isOnce);
  } catch (error) {
    if (!isOver) throw error;
  }
}
