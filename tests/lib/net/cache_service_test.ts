import { assertEquals } from "@std/assert";
import { cacheServices, connectionRefused } from "../../../lib/net/cache_service.ts";
import type { TransportEvent } from "../../../lib/net/transport.ts";
import { ConnectionKind } from "../../../store/connections.ts";
import { STAT } from "../../../store/stats.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

const ROWS = 2;

Deno.test("connections are counted, and refused when there is no row left, each with its log level", () => {
  for (const verbosity of [0, 1, 2]) {
    using side = new ConversationSide(["-c", `${ROWS}`]);
    side.thread.tunables.set("verbosity", verbosity);
    const events: TransportEvent[] = [];
    const { auto: service } = cacheServices(side.thread, 0, (event) => events.push(event));
    const open = (peer: string) => service.open(ConnectionKind.TCP, peer, "tcp:here:1");
    const [first, second, third] = ["a", "b", "c"].map(open);
    assertEquals([first === null, second === null, third], [false, false, null]);
    const { stats } = side.thread.memory;
    assertEquals([stats[STAT.total_connections], stats[STAT.rejected_connections]], [2, 1]);
    const { conn } = service.sourceOf(first!.owner);
    service.close(first!.owner, "idle_timeout");
    assertEquals(open("d") === null, false);
    assertEquals([stats[STAT.total_connections], stats[STAT.rejected_connections]], [3, 1]);
    const said = events.map(({ level, message }) => `${level} ${message}`);
    const refused = "info connection refused: c: 2 connections are open (-c)";
    assertEquals(
      said,
      [
        [],
        [refused],
        [
          ...["debug connection opened: a", "debug connection opened: b", refused],
          ...["debug connection closed: a (idle_timeout)", "debug connection opened: d"],
        ],
      ][verbosity],
    );
    if (verbosity < 2) continue;
    assertEquals(events[0]!.event, "connection_opened");
    assertEquals<unknown>(events[0]!.fields, { peer: "a", conn, listener: "tcp:here:1" });
    assertEquals(events[3]!.event, "connection_closed");
    assertEquals<unknown>(events[3]!.fields, { peer: "a", conn, reason: "idle_timeout" });
  }
  const { event, fields } = connectionRefused("p", "r");
  assertEquals([event, fields], ["connection_refused", { peer: "p", reason: "r" }]);
});

Deno.test("a row has the thread, the kind, the peer and the listener of its connection, and when it came", () => {
  using side = new ConversationSide();
  side.pause(50);
  const { ascii, binary } = cacheServices(side.thread, 0, () => {});
  const { connections } = side.thread;
  const conversation = ascii.open(ConnectionKind.UNIX, "unix:/s", "unix:/l")!;
  const [row] = [...connections].filter(({ peer }) => peer === "unix:/s");
  assertEquals([row!.kind, row!.listener], [ConnectionKind.UNIX, "unix:/l"]);
  assertEquals(connections.seenAtSec(conversation.owner), 52);
  assertEquals([ascii.isShared, ascii.limitsSilence, binary.connections === connections], [
    ...[true, true, true],
  ]);
  conversation.end();
  ascii.close(conversation.owner, "normal");
  assertEquals([...connections].filter(({ peer }) => peer === "unix:/s"), []);
  assertEquals(ascii.sourceOf(conversation.owner).peer, "?");
});

Deno.test("a listener's protocol is that of its conversations, a datagram's too", () => {
  using side = new ConversationSide();
  const services = cacheServices(side.thread, 0, () => {});
  const { input, reply } = side.thread;
  const noop = new Uint8Array(24);
  noop.set([0x80, 0x0a]);
  const requests = { text: bytesOf("mn\r\n".repeat(6)), binary: noop };
  const answers = { text: "MN\r\n", binary: "\x81\x0a" };
  for (const name of ["ascii", "binary", "auto"] as const) {
    const service = services[name];
    for (const format of ["text", "binary"] as const) {
      const conversations = [
        service.open(ConnectionKind.TCP, "p", "l")!,
        service.openDatagram(),
      ];
      for (const conversation of conversations) {
        reply.reset();
        input.bytes.set(requests[format]);
        conversation.feed(0, requests[format].length);
        const said = textOf(reply.region.bytes.subarray(0, reply.length));
        const isSpoken = name === "auto" || (name === "binary") === (format === "binary");
        assertEquals(said.startsWith(answers[format]), isSpoken, `${name} ${format}`);
      }
    }
  }
});
