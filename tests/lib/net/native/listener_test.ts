import { assertEquals, assertThrows } from "@std/assert";
import { relative } from "node:path";
import {
  AF_INET,
  IPPROTO_TCP,
  Libc,
  SO_KEEPALIVE,
  SOCK_CLOEXEC,
  SOCK_STREAM,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_NODELAY,
  TCP_USER_TIMEOUT,
} from "../../../../lib/net/native/libc.ts";
import { bindNetwork, reserveUnix, startListening } from "../../../../lib/net/native/listener.ts";
import { PassedSockets } from "../../../../lib/net/native/passed_sockets.ts";
import { ListenError } from "../../../../lib/net/transport.ts";
import { TRANSPORTS } from "../../../support/servers/server_process.ts";
import { needs } from "../../../support/needs/needs.ts";

const ANY_PORT = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "auto" } as const;

const GETSOCKOPT = {
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
} as const;

Deno.test("an accepted connection gives a silent peer up after two minutes", {
  ...needs("native", TRANSPORTS.includes("native")),
}, (): void => {
  using libc = new Libc();
  const own = Deno.dlopen("libc.so.6", GETSOCKOPT);
  const { calls } = libc;
  const [listener] = bindNetwork(libc, ANY_PORT, new PassedSockets(libc, []));
  startListening(libc, listener!, 1);
  const address = new Uint8Array(16);
  calls.getsockname(listener!.fd, address, new Int32Array([address.length]));
  const client = calls.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assertEquals(calls.connect(client, address, address.length), 0);
  const accepted = calls.accept4(listener!.fd, address, new Int32Array([16]), SOCK_CLOEXEC);
  const option = (level: number, name: number): number => {
    const value = new Int32Array(1);
    assertEquals(own.symbols.getsockopt(accepted, level, name, value, new Int32Array([4])), 0);
    return value[0]!;
  };
  assertEquals(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  const times = [TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT, TCP_NODELAY];
  assertEquals(times.map((name) => option(IPPROTO_TCP, name)), [60, 10, 6, 120_000, 1]);
  for (const fd of [accepted, client, listener!.fd]) calls.close(fd);
  own.close();
});

Deno.test("a port that the kernel chose belongs to one server before it listens", {
  ...needs("native", TRANSPORTS.includes("native")),
}, (): void => {
  using libc = new Libc();
  const passed = new PassedSockets(libc, []);
  const [first] = bindNetwork(libc, ANY_PORT, passed);
  const { port } = first!.listen as typeof ANY_PORT;
  assertThrows(() => bindNetwork(libc, { ...ANY_PORT, port }, passed), ListenError, "EADDRINUSE");
  libc.calls.close(first!.fd);
  const [again] = bindNetwork(libc, { ...ANY_PORT, port }, passed);
  libc.calls.close(again!.fd);
});

Deno.test("a socket file that a server left behind is replaced, also by a relative path", {
  ...needs("native", TRANSPORTS.includes("native")),
}, async () => {
  using libc = new Libc();
  const folder = await Deno.makeTempDir();
  const path = relative(Deno.cwd(), `${folder}/s`);
  const listen = { kind: "unix", path, mode: 0o700, protocol: "auto" } as const;
  for (let round = 0; round < 2; round++) {
    const listener = reserveUnix(libc, listen, new PassedSockets(libc, []));
    startListening(libc, listener, 1);
    assertEquals(Deno.lstatSync(path).isSocket, true);
    assertThrows(
      () => reserveUnix(libc, listen, new PassedSockets(libc, [])),
      ListenError,
      "EADDRINUSE",
    );
    libc.calls.close(listener.fd);
  }
  await Deno.remove(folder, { recursive: true });
});
