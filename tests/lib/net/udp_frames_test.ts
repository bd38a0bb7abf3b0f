import { assertEquals } from "@std/assert";
import {
  UDP_DATAGRAM_BYTES_MAX,
  udpDatagramCount,
  udpDatagrams,
  udpRequestId,
} from "../../../lib/net/udp_frames.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

/** The answers to a request with id 7, as [number, count, text]. */
function answers(replies: string): [number, number, string][] {
  return [...udpDatagrams(7, bytesOf(replies))].map((datagram) => {
    assertEquals([...datagram.subarray(0, 2), ...datagram.subarray(6, 8)], [0, 7, 0, 0]);
    const header = new DataView(datagram.buffer);
    return [header.getUint16(2), header.getUint16(4), textOf(datagram.subarray(8))];
  });
}

Deno.test("udpRequestId() takes requests of one datagram with something in it", () => {
  assertEquals(udpRequestId(bytesOf("\x12\x34\x00\x05\x00\x01\xff\xffx")), 0x1234);
  assertEquals(udpRequestId(bytesOf("\x12\x34\x00\x00\x00\x01\x00\x00")), -1);
  assertEquals(udpRequestId(bytesOf("\x12\x34\x00\x00\x00\x02\x00\x00x")), -1);
  assertEquals(udpRequestId(bytesOf("\x12\x34\x00\x00\x00\x00\x00\x00x")), -1);
  assertEquals(udpRequestId(bytesOf("x")), -1);
});

Deno.test("udpDatagrams() numbers each reply by itself", () => {
  assertEquals(answers("STORED\r\nNOT_FOUND\r\n"), [[0, 1, "STORED\r\n"], [0, 1, "NOT_FOUND\r\n"]]);
  assertEquals(answers(""), []);
});

Deno.test("udpDatagrams() keeps a value with its line, and END with the last value", () => {
  const first = "VALUE a 0 8\r\nEND\r\nEND\r\n";
  const last = "VALUE b 0 0 17\r\n\r\nEND\r\n";
  assertEquals(answers(first + last + "END\r\n"), [[0, 1, first], [0, 1, last], [0, 1, "END\r\n"]]);
  assertEquals(answers("VA 3 s3\r\nabc\r\nHD\r\n"), [[0, 1, "VA 3 s3\r\nabc\r\n"], [
    0,
    1,
    "HD\r\n",
  ]]);
});

Deno.test("udpDatagrams() counts a list as one reply", () => {
  for (const line of ["STAT pid 1", "ITEM k [1 b; 0 s]", "PREFIX p get 1 hit 0 set 0 del 0"]) {
    const list = `${line}\r\n${line}\r\nEND\r\n`;
    assertEquals(answers(list + "OK\r\n"), [[0, 1, list], [0, 1, "OK\r\n"]]);
  }
});

Deno.test("udpDatagrams() cuts a long reply into full datagrams", () => {
  const payload = UDP_DATAGRAM_BYTES_MAX - 8;
  const reply = `VALUE k 0 4000\r\n${"v".repeat(4000)}\r\nEND\r\n`;
  const found = answers(reply);
  assertEquals(found.map(([number, count, text]) => [number, count, text.length]), [
    [0, 3, payload],
    [1, 3, payload],
    [2, 3, reply.length - 2 * payload],
  ]);
  assertEquals(found.map(([, , text]) => text).join(""), reply);
});

Deno.test("a reply has as many datagrams as it needs, up to 65535", () => {
  const payload = UDP_DATAGRAM_BYTES_MAX - 8;
  const lengths = [1, payload, payload + 1, 2 * payload, 65535 * payload, 65535 * payload + 1];
  assertEquals(lengths.map(udpDatagramCount), [1, 1, 2, 2, 65535, 0]);
  for (const length of [payload, payload + 1]) {
    const reply = `${"x".repeat(length - 2)}\r\n`;
    const found = answers(`${reply}OK\r\n`);
    const count = udpDatagramCount(length);
    assertEquals(found.map(([number, of]) => [number, of]), [
      ...Array.from({ length: count }, (_, number) => [number, count]),
      [0, 1],
    ]);
    assertEquals(found.map(([, , text]) => text).join(""), `${reply}OK\r\n`);
  }
});

Deno.test("udpDatagrams() takes binary packets apart, all of stat together", () => {
  const packet = (opcode: string, body: string): string =>
    `\x81${opcode}${"\0".repeat(6)}\0${
      String.fromCharCode(body.length >> 16, (body.length >> 8) & 255, body.length & 255)
    }${"\0".repeat(12)}${body}`;
  const stat = packet("\x10", "pid1") + packet("\x10", "x2") + packet("\x10", "");
  const get = packet("\x00", "value");
  assertEquals(answers(get + stat + get), [[0, 1, get], [0, 1, stat], [0, 1, get]]);
  const long = packet("\x00", "v".repeat(0x10001));
  assertEquals(answers(long + get).at(-1), [0, 1, get]);
});

Deno.test("udpDatagrams() makes something of what no server answers", () => {
  for (
    const odd of ["VALUE", "VALUE a 0 99\r\nx", "no line end", "STAT a", "\x81", "\x81\x10abc"]
  ) {
    assertEquals(answers(odd).map(([, , text]) => text).join(""), odd);
  }
});
