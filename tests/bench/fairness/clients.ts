/** The clients of the bench: quiet ones, and busy ones that are processes of their own. */
import { itemKey } from "../../support/load/costly_requests.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

const QUIET_GET = bytesOf(`get ${itemKey(1)}\r\n`);

/**
 * Sends what it reads from its standard input for ever, and reads replies in between. Writes a byte to its standard
 * output when the first replies have come.
 */
const BUSY_CLIENT = `
import select, socket, sys
request = memoryview(sys.stdin.buffer.read())
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.setblocking(False)
left = request
buffer = bytearray(1 << 18)
begun = False
while True:
    r, w, _ = select.select([s], [s], [])
    if r:
        if s.recv_into(buffer) == 0: break
        if not begun:
            begun = True
            sys.stdout.write(".")
            sys.stdout.flush()
    if w:
        left = left[s.send(left):] or request
`;

/** A process, so that the quiet client's own work is not delayed by the busy ones'. */
export function startBusyClient(port: number, request: string): Deno.ChildProcess {
  const last = navigator.hardwareConcurrency - 1;
  const child = new Deno.Command("taskset", {
    args: ["-c", `${Math.min(2, last)}-${last}`, "python3", "-c", BUSY_CLIENT, `${port}`],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  writer.write(bytesOf(request)).then(() => writer.close()).catch(() => {});
  return child;
}

/** Waits until a busy client has received its first replies. */
export async function isBusy(child: Deno.ChildProcess): Promise<void> {
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
}

/** Sends one get. Returns how long its reply took, in milliseconds. */
export async function roundTrip(connection: Deno.Conn): Promise<number> {
  const startMs = performance.now();
  await send(connection, QUIET_GET);
  await until(connection, "END\r\n");
  return performance.now() - startMs;
}

/** Sends lines of text, and waits until all are answered. */
export async function askAll(connection: Deno.Conn, lines: readonly string[]): Promise<void> {
  await send(connection, bytesOf([...lines, "mn"].map((line) => `${line}\r\n`).join("")));
  await until(connection, "MN\r\n");
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
