/** The connections of the bench: a quiet client, and one that sends a costly packet. */
import { itemKey } from "../../support/load/costly_requests.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

const QUIET_GET = bytesOf(`get ${itemKey(1)}\r\n`);
const REQUESTS_PER_WRITE = 500;

export function connect(port: number): Promise<Deno.Conn> {
  return Deno.connect({ hostname: "127.0.0.1", port });
}

/** Sends one get. Returns how long its reply took, in milliseconds. */
export async function roundTrip(connection: Deno.Conn): Promise<number> {
  const startMs = performance.now();
  await send(connection, QUIET_GET);
  await until(connection, "END\r\n");
  return performance.now() - startMs;
}

/** Sends `count` lines of text, some at a time, and waits until all are answered. */
export async function askEach(
  connection: Deno.Conn,
  count: number,
  line: (index: number) => string,
): Promise<void> {
  for (let at = 0; at < count; at += REQUESTS_PER_WRITE) {
    const size = Math.min(REQUESTS_PER_WRITE, count - at);
    const lines = Array.from({ length: size }, (_, index) => `${line(at + index)}\r\n`);
    await send(connection, bytesOf(lines.join("") + "mn\r\n"));
    await until(connection, "MN\r\n");
  }
}

/** Reads until replies end with `mark`, which is short and the last one sent. */
async function until(connection: Deno.Conn, mark: string): Promise<void> {
  const buffer = new Uint8Array(64 * 1024);
  for (let tail = ""; !tail.endsWith(mark);) {
    const length = await connection.read(buffer);
    if (length === null) throw new Error(`the server closed a connection that awaits ${mark}`);
    const end = textOf(buffer.subarray(Math.max(0, length - mark.length), length));
    tail = (tail + end).slice(-mark.length);
  }
}

export async function send(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await connection.write(bytes.subarray(sent));
}

/** Reads until the connection is closed. */
export async function discard(connection: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(1024 * 1024);
  try {
    while (await connection.read(buffer) !== null);
  } catch {
    // It was closed: its time was over.
  }
}
