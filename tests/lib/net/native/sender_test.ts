import { assert, assertEquals } from "@std/assert";
import type { NativeConnection } from "../../../../lib/net/native/connection.ts";
import type { Epoll } from "../../../../lib/net/native/epoll.ts";
import type { CallIo, RoundIo } from "../../../../lib/net/native/round_io.ts";
import { NativeSender } from "../../../../lib/net/native/sender.ts";
import type { ValueIo } from "../../../../lib/net/native/value_io.ts";
import { clockSec } from "../../../../store/clock.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";

// The kernel mostly takes the rest of a reply buffer at once, so tests over sockets see no reply that goes in parts.

Deno.test("each part of its replies that a peer takes is progress", () => {
  using side = new ConversationSide();
  let taken = 0;
  const calls = { write: () => taken } as unknown as CallIo;
  const no = {} as unknown;
  const sender = new NativeSender(
    side.thread,
    calls,
    no as Epoll,
    no as ValueIo,
    no as RoundIo,
    () => assert(false, "nothing is broken"),
  );
  const connection = { unsent: new Uint8Array(100), progressAtSec: 0 } as NativeConnection;
  const { memory } = side.thread;
  taken = 40;
  assert(!sender.sendRest(connection));
  const first = clockSec(memory);
  assertEquals([connection.unsent?.length, connection.progressAtSec], [60, first]);
  side.advanceNow(35);
  taken = 0;
  assert(!sender.sendRest(connection));
  assertEquals([connection.unsent?.length, connection.progressAtSec], [60, first]);
  taken = 20;
  assert(!sender.sendRest(connection));
  assertEquals([connection.unsent?.length, connection.progressAtSec], [40, first + 35]);
  taken = 40;
  assert(sender.sendRest(connection));
  assertEquals(connection.unsent, null);
});
