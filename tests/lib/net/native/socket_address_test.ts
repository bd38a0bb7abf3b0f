import { assertEquals, assertThrows } from "@std/assert";
import {
  AF_INET,
  AF_INET6,
  AF_UNIX,
  Libc,
  libcAvailable,
} from "../../../../lib/net/native/libc.ts";
import {
  readAddress,
  resolveAddresses,
  unixAddress,
} from "../../../../lib/net/native/socket_address.ts";
import { needs } from "../../../support/needs/needs.ts";

Deno.test({
  name: "resolveAddresses() reads numeric addresses",
  ...needs("native", libcAvailable()),
}, () => {
  using libc = new Libc();
  const [four] = resolveAddresses(libc, "tcp", "127.0.0.1", 11211);
  assertEquals(four!.family, AF_INET);
  assertEquals(readAddress(four!.bytes), { hostname: "127.0.0.1", port: 11211 });
  const [six] = resolveAddresses(libc, "tcp", "::1", 65535);
  assertEquals(six!.family, AF_INET6);
  assertEquals(readAddress(six!.bytes), { hostname: "::1", port: 65535 });
});

Deno.test({
  name: "resolveAddresses() gives nothing for what is no address",
  ...needs("native", libcAvailable()),
}, () => {
  using libc = new Libc();
  assertEquals(resolveAddresses(libc, "tcp", "300.1.2.3.4", 1), []);
});

Deno.test("readAddress() writes IPv6 addresses with their longest run of zeros left out", () => {
  const texts: [groups: number[], text: string][] = [
    [[0, 0, 0, 0, 0, 0, 0, 0], "::"],
    [[0x2001, 0xdb8, 0, 0, 1, 0, 0, 1], "2001:db8::1:0:0:1"],
    [[0x2001, 0xdb8, 0, 0, 1, 0, 0, 0], "2001:db8:0:0:1::"],
    [[0x2001, 0xdb8, 0, 1, 1, 1, 1, 1], "2001:db8:0:1:1:1:1:1"],
    [[0xfe80, 0, 0, 0, 0, 0, 0, 0], "fe80::"],
    [[0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], "::ffff:127.0.0.1"],
    [[1, 2, 3, 4, 5, 6, 7, 8], "1:2:3:4:5:6:7:8"],
  ];
  for (const [groups, hostname] of texts) {
    const bytes = new Uint8Array(28);
    const view = new DataView(bytes.buffer);
    view.setUint16(0, AF_INET6, true);
    view.setUint16(2, 7, false);
    groups.forEach((group, index) => view.setUint16(8 + 2 * index, group, false));
    assertEquals(readAddress(bytes), { hostname, port: 7 });
  }
});

Deno.test("readAddress() knows no other families", () => {
  assertEquals(readAddress(unixAddress("/tmp/x").bytes), undefined);
});

Deno.test("unixAddress() ends the path with a zero and refuses what the kernel would", () => {
  const { family, bytes } = unixAddress("/a");
  assertEquals([family, ...bytes], [AF_UNIX, AF_UNIX, 0, 0x2f, 0x61, 0]);
  assertThrows(() => unixAddress("x".repeat(108)), RangeError, "longer than 107 bytes");
});
