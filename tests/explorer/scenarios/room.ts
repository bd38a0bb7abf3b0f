import type { RoomScenario } from "../room/room_scenario.ts";

// Scenarios with writes that wait for the memory of other values: their values never take more than they may, none is
// in front of an older one, none waits for ever, and nothing is left when their connections end.

// deno-fmt-ignore
export const ROOM: readonly RoomScenario[] = [
  { name: "room: four writes, one value fits", lengths: [900, 900, 900, 900], bytesMax: 1000 },
  { name: "room: a long value between short ones", lengths: [900, 1900, 900, 900], bytesMax: 2000,
    events: { leave: 1 } },
  { name: "room: connections end, and the time of waits", lengths: [900, 900, 900], bytesMax: 1000,
    events: { leave: 2, time: 1 } },
  { name: "room fault: the end of a write gives its memory to nobody", lengths: [900, 900], bytesMax: 1000,
    fault: "givesNothing", wrongAfter: 5 },
  { name: "room fault: a write overtakes those that wait", lengths: [900, 1900, 900], bytesMax: 2000,
    fault: "overtakes", wrongAfter: 3 },
  { name: "room fault: a write whose wait has ended takes what it needs", lengths: [900, 900, 900], bytesMax: 1000,
    fault: "looksOnce", wrongAfter: 7 },
  { name: "room fault: the wait of a connection that has ended goes on", lengths: [900, 900], bytesMax: 1000,
    events: { leave: 1 }, fault: "keepsWait", wrongAfter: 6 },
];
