import { assertEquals } from "@std/assert";
import {
  HEAD_BYTES_MAX,
  HEADERS_MAX,
  HttpError,
  isHostAllowed,
  parseRequest,
} from "../../../lib/admin/http_request.ts";

Deno.test("a request is parsed when its head is complete, in whatever pieces it comes", () => {
  const text = "GET /metrics?x=1 HTTP/1.1\r\nhost: LocalHost:9150\r\nAccept: */*\r\n\r\n";
  for (let end = 0; end < text.length; end++) assertEquals(parseRequest(text.slice(0, end)), null);
  const request = { method: "GET", path: "/metrics", host: "localhost" };
  assertEquals(parseRequest(text), request);
  assertEquals(parseRequest(`${text}more`), request);
  assertEquals(parseRequest("HEAD / HTTP/1.0\r\n\r\n"), { method: "HEAD", path: "/", host: "" });
  assertEquals(parseRequest("GET / HTTP/1.1\r\nHost: [::1]:9150\r\n\r\n")?.host, "[::1]");
});

function statusOf(text: string): number {
  try {
    parseRequest(text);
    return 200;
  } catch (error) {
    if (error instanceof HttpError) return error.status;
    throw error;
  }
}

Deno.test("malformed requests and large ones are refused", () => {
  const line = "GET / HTTP/1.1\r\n";
  const refused: [number, string][] = [
    [400, "\r\n\r\n"],
    [400, "GET /\r\n\r\n"],
    [400, "GET / x HTTP/1.1\r\nHost: a\r\n\r\n"],
    [400, `${line}\r\n`],
    [400, `${line}Host: a\r\nHost: a\r\n\r\n`],
    [400, `${line}Host: a b\r\n\r\n`],
    [400, `${line}Host: a@b\r\n\r\n`],
    [400, `${line}Host : a\r\n\r\n`],
    [400, `${line}Host: a\r\n folded: x\r\n\r\n`],
    [400, `${line}Host: a\r\nX: \0\r\n\r\n`],
    [400, `${line}Host: a\n\r\n\r\n`],
    [400, "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"],
    [505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"],
    [431, `${line}Host: a\r\n${"x: y\r\n".repeat(HEADERS_MAX)}\r\n`],
    [431, `${line}Host: a\r\nx: ${"y".repeat(HEAD_BYTES_MAX)}`],
    [431, "G".repeat(HEAD_BYTES_MAX)],
  ];
  for (const [status, text] of refused) assertEquals(statusOf(text), status, text.slice(0, 80));
});

Deno.test("on loopback, a host must be an address, localhost or the name of the option", () => {
  for (const local of ["127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"]) {
    for (const host of ["", "localhost", "127.0.0.1", "[::1]", "10.0.0.1", "cache1"]) {
      assertEquals(isHostAllowed(host, local, "Cache1"), true, host);
    }
    for (const host of ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"]) {
      assertEquals(isHostAllowed(host, local, "127.0.0.1"), false, host);
    }
  }
  assertEquals(isHostAllowed("cache1.example", "10.0.0.1", "0.0.0.0"), true);
});
