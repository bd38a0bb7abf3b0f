/** The clients of the bench: quiet ones, and busy ones that are processes of their own. */
import { itemKey } from "../../support/load/costly_requests.ts";
import { bytesOf } from "../../support/sessions/side.ts";

const QUIET_GET = bytesOf(`get ${itemKey(1)}\r\n`);

/** Sends what it reads from its standard input for ever, and reads replies in between. */
const BUSY_CLIENT = `
import select, socket, sys
request = sys.stdin.buffer.read()
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.setblocking(False)
left = request
while True:
    r, w, _ = select.select([s], [s], [])
    if r and not s.recv(1 << 20): break
    if w:
        left = left[s.send(left):] or request
`;

/** A process, so that the quiet client's own work is not delayed by the busy ones'. */
export function startBusyClient(port: number, request: string): Deno.ChildProcess {
  const last = navigator.hardwareConcurrency - 1;
  const child = new Deno.Command("taskset", {
    args: ["-c", `${Math.min(2, last)}-${last}`, "python3", "-c", BUSY_CLIENT, `${port}`],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  writer.write(bytesOf(request)).then(() => writer.close()).catch(() => {});
  return child;
}

/** Sends one get. Returns how long its reply took, in milliseconds. */
export async function roundTrip(connection: Deno.Conn): Promise<number> {
  const buffer = new Uint8Array(4096);
  const startMs = performance.now();
  await send(connection, QUIET_GET);
  for (let tail = ""; !tail.endsWith("END\r\n");) {
    const length = await connection.read(buffer);
    if (length === null) throw new Error("the server closed a quiet connection");
    tail = new TextDecoder().decode(buffer.subarray(Math.max(0, length - 5), length));
  }
  return performance.now() - startMs;
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
