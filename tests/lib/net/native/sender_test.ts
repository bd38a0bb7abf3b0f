import { assertEquals } from "@std/assert";
import type { NativeConnection } from "../../../../lib/net/native/connection.ts";
import type { Epoll } from "../../../../lib/net/native/epoll.ts";
import type { CallIo } from "../../../../lib/net/native/round_io.ts";
import { NativeSender } from "../../../../lib/net/native/sender.ts";
import type { ValueIo } from "../../../../lib/net/native/value_io.ts";
import type { TransportThread } from "../../../../lib/net/worker_transport.ts";
import { clockSec, shiftClock } from "../../../../store/clock.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";

const EAGAIN = 11;

Deno.test("each byte that a slow reader takes is progress, no byte is none", () => {
  using side = new ConversationSide();
  const { memory } = side.thread;
  let taken = 0;
  const calls = { write: () => taken } as unknown as CallIo;
  const sender = new NativeSender(
    side.thread as unknown as TransportThread,
    calls,
    {} as Epoll,
    {} as ValueIo,
    calls,
    () => {},
  );
  const connection = {
    unsent: new Uint8Array(100),
    progressAtSec: clockSec(memory),
    closed: false,
  } as unknown as NativeConnection;
  sender.stalled.add(connection);
  const progressAfter = (result: number): number => {
    taken = result;
    shiftClock(memory, 100);
    sender.sendRest(connection);
    return clockSec(memory) - connection.progressAtSec;
  };
  assertEquals(progressAfter(-EAGAIN), 100);
  assertEquals(progressAfter(1), 0);
  assertEquals(connection.unsent?.length, 99);
  assertEquals(progressAfter(-EAGAIN), 100);
  assertEquals(progressAfter(98), 0);
  assertEquals(sender.stalled.has(connection), true);
  assertEquals(progressAfter(1), 0);
  assertEquals([connection.unsent, sender.stalled.size], [null, 0]);
});
