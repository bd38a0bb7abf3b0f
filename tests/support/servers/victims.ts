import {
  AF_INET,
  Libc,
  libcAvailable,
  SOCK_CLOEXEC,
  SOCK_STREAM,
  SOL_SOCKET,
} from "../../../lib/net/native/libc.ts";
import { resolveAddresses } from "../../../lib/net/native/socket_address.ts";
import { Client } from "./server_process.ts";
import { bytesOf, textOf } from "../sessions/side.ts";
import { needNow } from "../needs/needs.ts";
import { hasProgram } from "./peers.ts";

/** A client that is there to be ended. */
export interface Victim {
  /** First line of its reply. */
  readonly firstLine: string;
  /** Ends it, in its own way. */
  end(): Promise<void> | void;
}

/** A way to end, with a client that can: connects to 127.0.0.1, sends, and waits for a line. */
export type MakeVictim = (port: number, request: string) => Promise<Victim>;

const SO_LINGER = 13;
/** `struct linger`: on, and no time for it, so that closing resets the connection. */
const LINGER_NOT = new Int32Array([1, 0]);

async function connect(port: number, request: string): Promise<{ client: Client; line: string }> {
  const client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  await client.send(request);
  return { client, line: await client.until("\r\n") };
}

/** A socket of the C library, because the runtime's know no SO_LINGER. */
function connectByLibc(port: number, request: string): { fd: number; line: string } {
  const { calls } = libc();
  const [address] = resolveAddresses(libc(), "tcp", "127.0.0.1", port);
  // No process that is started meanwhile may get it too.
  const fd = calls.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (calls.connect(fd, address!.bytes, address!.bytes.length) < 0) {
    throw new Error(`Cannot connect to port ${port}: error ${libc().errno}`);
  }
  const bytes = bytesOf(request);
  calls.send(fd, bytes, bytes.length, 0);
  let line = "";
  const byte = new Uint8Array(1);
  while (!line.endsWith("\r\n") && calls.recv(fd, byte, 1, 0) === 1) line += textOf(byte);
  return { fd, line };
}

let opened: Libc | undefined;

function libc(): Libc {
  return opened ??= new Libc();
}

/** Frees the resources that victims of all ways share. */
export function closeLibc(): void {
  opened?.[Symbol.dispose]();
  opened = undefined;
}

/** A process of its own, in a shell, which starts quickly. */
async function startProcess(port: number, request: string): Promise<Victim> {
  const script = `exec 3<>/dev/tcp/127.0.0.1/${port}; printf '%b' "$0" >&3; ` +
    `IFS= read -r line <&3; echo "$line"; read -r _`;
  const escaped = request.replace(
    /[^ -~]|[\\]/g,
    (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  needNow("bash", hasProgram("bash"));
  const child = new Deno.Command("bash", {
    args: ["-c", script, escaped],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  return {
    firstLine: `${textOf(value ?? new Uint8Array()).trim()}\r\n`,
    async end(): Promise<void> {
      child.kill("SIGKILL");
      await reader.cancel();
      await child.stdin.abort().catch(() => {});
      await child.status;
    },
  };
}

/** The ways there are here, by name. */
export const WAYS: Readonly<Record<string, MakeVictim>> = {
  close: async (port, request) => {
    const { client, line } = await connect(port, request);
    return { firstLine: line, end: () => client[Symbol.dispose]() };
  },
  quit: async (port, request) => {
    const { client, line } = await connect(port, request);
    return {
      firstLine: line,
      async end(): Promise<void> {
        await client.send("quit\r\n");
        client[Symbol.dispose]();
      },
    };
  },
  "end of sending": async (port, request) => {
    const { client, line } = await connect(port, request);
    return {
      firstLine: line,
      async end(): Promise<void> {
        await client.socket.closeWrite();
        await client.rest();
        client[Symbol.dispose]();
      },
    };
  },
  "SIGKILL of its process": startProcess,
  ...(libcAvailable()
    ? {
      "reset": (port, request) => {
        const { fd, line } = connectByLibc(port, request);
        return Promise.resolve({
          firstLine: line,
          end(): void {
            const { calls } = libc();
            calls.setsockopt(fd, SOL_SOCKET, SO_LINGER, new Uint8Array(LINGER_NOT.buffer), 8);
            calls.close(fd);
          },
        });
      },
    } satisfies Record<string, MakeVictim>
    : {}),
};
