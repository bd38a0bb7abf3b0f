import { assert, assertEquals } from "@std/assert";
import { Cache } from "../../../../lib/client/mod.ts";
import * as requests from "../../../../lib/client/requests.ts";
import { UnreadableReply } from "../../../../lib/client/net/connection.ts";
import { TextWire } from "../../../../lib/client/net/text_wire.ts";
import type { Request } from "../../../../lib/client/net/wire.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";
import { bytesOf } from "../../../support/sessions/side.ts";

// A reply that does not have the form due: the request fails with a clear error, and the connection is closed, because
// what follows cannot be trusted either. @ stands for the request's opaque.

const META = [
  "EN",
  "HD",
  "HD O0",
  "HD @x",
  "HD O",
  "HD @\n",
  "OK",
  "STORED",
  "END",
  "XX @",
  "hd @",
  "",
  "\n",
];

/** Of each command, replies that are none. */
const FORMS: Record<string, readonly [(cache: Cache) => Promise<unknown>, readonly string[]]> = {
  get: [(cache) => cache.get("k"), [
    ...META,
    ...["HD @", "NF @", "NS @", "EX @", "EN @x", "EN\n", "EN O1\n"],
    ...["VA 1 @\r\n1", "VA 1 f0\r\n1", "VA 1 f @\r\n1", "VA 1 f0x @\r\n1", "VA 1 f-1 @\r\n1"],
    ...["VA 1 f4294967296 @\r\n1", "VA @\r\n1", "VA x f0 @\r\n1", "VA 1x f0 @\r\n1"],
    ...["VA 0x1 f0 @\r\n1", "VA +1 f0 @\r\n1", "VA -1 f0 @\r\n1", "VA 1e0 f0 @\r\n1"],
    ...["VA 1073741825 f0 @\r\n1", "VA 99999999999999999999 f0 @\r\n1", "VA  f0 @\r\n1"],
    ...["VA 1 f0 @\r\n12", "VA 1 f0 @\r\n1\n\n", "VALUE k 0 1\r\n1\r\nEND"],
    ...["VALUE k 0 x", "ERRORS", "SERVER_ERRORS x", "x".repeat(4097), `EN @ ${"x".repeat(4096)}`],
  ]],
  gets: [(cache) => cache.gets("k"), [
    ...META,
    ...["VA 1 f0 t-1 @\r\n1", "VA 1 f0 c1 @\r\n1", "VA 1 c1 t-1 @\r\n1", "VA 1 f0 c t-1 @\r\n1"],
    ...["VA 1 f0 cx t-1 @\r\n1", `VA 1 f0 c${2n ** 64n} t-1 @\r\n1`, "VA 1 f0 c1 t @\r\n1"],
    ...["VA 1 f0 c1 t- @\r\n1", "VA 1 f0 c1 t-2 @\r\n1", "VA 1 f0 c1 t1.5 @\r\n1"],
  ]],
  set: [(cache) => cache.set("k", 1), [...META, "EN @", "VA 1 f0 @\r\n1", "NOT_STORED"]],
  delete: [(cache) => cache.delete("k"), [...META, "EN @", "DELETED", "VA 1 f0 @\r\n1"]],
  touch: [(cache) => cache.touch("k", 1), [...META, "EX @", "TOUCHED", "VA 1 f0 @\r\n1"]],
  increment: [(cache) => cache.increment("k"), [
    ...META,
    ...[
      "HD @",
      "5",
      "VA 0 @\r\n\r\n",
      "VA 1 @\r\nx",
      "VA 2 @\r\n 5",
      "VA 2 @\r\n-5",
      "VA 3 @\r\n1.5",
    ],
    `VA 21 @\r\n${"1".repeat(21)}`,
    `VA 200000 @\r\n${"1".repeat(200_000)}`,
  ]],
  meta: [(cache) => cache.meta("mg", "k"), [...META, "MN @", "ME k @"]],
  lock: [(cache) => cache.lock("k"), [
    ...["OK", "OK ", "OK x", "OK 5 6", "OK  5", "OK 5x", "OK -1", "OK 5.5", `OK ${2n ** 53n}`],
    ...["LOCKED 5", "NOT_FOUND 5", "TOKEN 5", "HD O1", "OK 5\n", "OKAY 5", "VALUE k 0 1\r\n1", ""],
  ]],
  takeToken: [(cache) => cache.takeToken("k", "w"), [
    ...["TOKEN", "TOKEN ", "TOKEN x", "TOKEN 1 2", "TOKEN -1", `TOKEN ${2n ** 64n}`, "OK 5"],
    ...["TOKENS 5", "LOCKED 5", "TOKEN 5\n"],
  ]],
  releaseToken: [(cache) => cache.releaseToken("k", "5"), [
    "OK 5",
    "NOT_FOUND 5",
    "BUSY",
    "STORED",
  ]],
  deletess: [(cache) => cache.deletess("k", 5), [
    ...["DELETED", "DELETED x", "DELETED 1 2", "NOT_FOUND", "NOT_FOUND -1", "OK 5", "LOCKED 5"],
  ]],
  getss: [(cache) => cache.getss("k", 5, 7), [
    ...[
      "END",
      "VALUE k 0 1\r\n1\r\nEND",
      "VALUE k 0 1 x\r\n1\r\nEND",
      "VALUE k 0 1 5 6\r\n1\r\nEND",
    ],
    ...["VALUE other 0 1 5\r\n1\r\nEND", "VALUE k x 1 5\r\n1\r\nEND", "VALUE k 0 x 5\r\n1\r\nEND"],
    ...["VALUE k 7 1 5\r\nx\r\nEND", "VALUE k 0 1e0 5\r\n1\r\nEND", "STAT a 1\r\nEND", "HD O1"],
    ...["VALUE k 0 1 5\r\n1\r\nVALUE k 0 1 5\r\n1\r\nEND", "VALUE k 0 1 5\r\n12\r\nEND", "RESET"],
  ]],
  stats: [(cache) => cache.stats(), [
    ...[
      "STAT\r\nEND",
      "VALUE k 0 1\r\n1\r\nEND",
      "HTTP/1.1 400 Bad Request",
      "STAT a 1\nEND",
      "OK",
    ],
  ]],
  getOrLoad: [(cache) => cache.getOrLoad("k", () => 1), [
    ...META,
    ...[
      "EN @",
      "HD c5 @",
      "VA 0 f0 c0 t5 W @\r\n\r\n",
      "VA 0 f0 t5 W @\r\n\r\n",
      "VA 0 f0 c5 W @\r\n\r\n",
    ],
    "VA 0 c5 t5 W @\r\n\r\n",
  ]],
};

for (const [command, [call, replies]] of Object.entries(FORMS)) {
  Deno.test(`replies to ${command} that do not have the form due`, async () => {
    const faults: string[] = [];
    for (const reply of replies) {
      let isAnswered = false;
      await using peer = new ScriptedPeer((line) => {
        if (isAnswered) return [];
        isAnswered = true;
        const whole = reply.replaceAll("@", /O\d+$/.exec(line)?.[0] ?? "");
        return [reply.endsWith("\n") ? whole : `${whole}\r\n`];
      });
      await using cache = new Cache(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
      const sent = [call(cache)];
      // A lock has its own connection, and a flow sends later.
      if (command !== "lock" && command !== "getOrLoad") {
        sent.push(cache.get("other"), cache.delete("other"));
      }
      for (const [index, result] of (await Promise.allSettled(sent)).entries()) {
        const error = result.status === "rejected" ? result.reason : result.value;
        const isClear = error?.name === (index === 0 ? "ProtocolError" : "ConnectionError") &&
          /^127\.0\.0\.1:\d+: \w+.*: (?:the server sent|an unexpected reply)/.test(error.message);
        if (!isClear) faults.push(`${JSON.stringify(reply)}: ${error}`);
      }
      assertEquals(peer.connections, 1);
    }
    assertEquals(faults, []);
  });
}

Deno.test("replies to writes of rows that do not have the form due", () => {
  const row = { bytes: new Uint8Array(1), flags: 0 };
  const read = (request: Request<unknown>, line: string): unknown => {
    const wire = new TextWire();
    wire.add(bytesOf(`${line}\r\n`));
    try {
      return request.read(wire.next("line")!);
    } catch (error) {
      assert(error instanceof UnreadableReply);
      return undefined;
    }
  };
  const put = requests.writeRow("k", row, "5");
  const remove = requests.writeRow("k", undefined, "5");
  assertEquals([read(put, "STORED 7"), read(remove, "DELETED 7")], [7, 7]);
  assertEquals([read(put, "BUSY"), read(put, "REVOKED")], ["busy", "revoked"]);
  for (const line of ["STORED", "STORED x", "STORED 1 2", "DELETED 7", "BUSY 5", "OK", "TOKEN 5"]) {
    assertEquals(read(put, line), undefined, line);
  }
  assertEquals(read(remove, "STORED 7"), undefined);
  assertEquals(read(requests.unlock("k"), "OK"), undefined);
  const end = requests.endToken("k", "5");
  assertEquals([read(end, "OK"), read(end, "BUSY"), read(end, "NOT_FOUND")], [true, false, false]);
  assertEquals(read(end, "OK 5"), undefined);
  const tag = requests.version("tag:t");
  for (const line of ["HD", "EN", "OK", "HD c"]) assertEquals(read(tag, line), undefined);
});
