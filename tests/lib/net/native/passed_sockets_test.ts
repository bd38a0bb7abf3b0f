import { assertEquals } from "@std/assert";
import { AF_INET, AF_INET6, type Libc } from "../../../../lib/net/native/libc.ts";
import { PassedSockets } from "../../../../lib/net/native/passed_sockets.ts";
import { unixAddress } from "../../../../lib/net/native/socket_address.ts";

const [STREAM, DATAGRAM] = [1, 2];
const [F_SETFD, F_SETFL, FD_CLOEXEC, O_NONBLOCK] = [2, 4, 1, 0o4000];

function inet(port: number, last = 1): Uint8Array {
  return Uint8Array.of(AF_INET, 0, port >> 8, port & 255, 127, 0, 0, last, ...Array(8).fill(0));
}

function inet6(port: number, flow: number, last: number, scope = 0): Uint8Array {
  const address = new Uint8Array(28);
  address.set([AF_INET6, 0, port >> 8, port & 255, flow, flow, flow, flow]);
  address[23] = last;
  address[24] = scope;
  return address;
}

/** A socket of the service manager: its descriptor, type and name. */
type Socket = readonly [fd: number, type: number, name: Uint8Array];

/** The sockets, and the calls of fcntl. */
function pass(sockets: readonly Socket[]): { passed: PassedSockets; set: number[][] } {
  const set: number[][] = [];
  const socketOf = (fd: number): Socket => sockets.find(([each]) => each === fd)!;
  const calls = {
    getsockopt: (fd: number, _level: number, _name: number, value: Int32Array) =>
      value[0] = socketOf(fd)[1],
    getsockname: (fd: number, name: Uint8Array) => name.set(socketOf(fd)[2]),
    fcntl: (...args: number[]) => set.push(args),
  };
  const passed = new PassedSockets({ calls } as unknown as Libc, sockets.map(([fd]) => fd));
  return { passed, set };
}

Deno.test("a passed socket is taken once, by its address and its type, and does not block", () => {
  const { passed, set } = pass([
    ...[[3, DATAGRAM, inet(300)], [4, STREAM, inet(300)], [5, STREAM, inet(300)]] as const,
    ...[[6, STREAM, inet6(300, 9, 1)], [7, STREAM, unixAddress("/run/s").bytes]] as const,
  ]);
  assertEquals(passed.take(inet(301)), null);
  assertEquals(passed.take(inet(300, 2)), null);
  assertEquals(passed.take(inet(300 + 256)), null);
  assertEquals(passed.take(inet6(300, 0, 2)), null);
  assertEquals(passed.take(unixAddress("/run/s2").bytes), null);
  assertEquals(set, []);
  assertEquals(passed.take(inet(300)), 4);
  assertEquals(set.splice(0), [[4, F_SETFD, FD_CLOEXEC], [4, F_SETFL, O_NONBLOCK]]);
  assertEquals([passed.take(inet(300)), passed.take(inet(300))], [5, null]);
  assertEquals(passed.take(inet6(300, 0, 1, 3)), 6, "the flow and the scope are no part of it");
  assertEquals(passed.take(unixAddress("/run/s").bytes), 7);
  assertEquals(passed.unused, ["udp 127.0.0.1:300"]);
});

Deno.test("sockets that no listener took are named by their addresses", () => {
  const { passed } = pass([
    ...[[3, DATAGRAM, inet6(300, 0, 1)], [4, STREAM, inet6(300, 0, 1)]] as const,
    ...[[5, STREAM, unixAddress("/run/s").bytes], [6, STREAM, Uint8Array.of(99, 0, 1, 1)]] as const,
  ]);
  assertEquals(passed.unused, ["udp [::1]:300", "[::1]:300", "/run/s", "descriptor 6"]);
});
