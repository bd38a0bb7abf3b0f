import { startLeased } from "../support/servers/leased.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX } from "../support/sessions/socket_side.ts";
import { SLICES } from "../support/sessions/slices.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

/** The same transcripts over a transport, each file to a server process of its own. */
export function testOverSockets(io: "portable" | "native"): void {
  for (const slice of SLICES) testSlice(io, slice);
}

function testSlice(io: "portable" | "native", slice: typeof SLICES[number]): void {
  for (const { name, options, cases } of readTranscripts()) {
    const playable = cases.filter((one) => secondsOf(one) <= REAL_SECONDS_MAX);
    Deno.test({
      name: `${name} over sockets, ${io}${slice.title}`,
      ignore: playable.length === 0,
      async fn(t): Promise<void> {
        const leased = await startLeased(io, [...options, ...slice.options]);
        try {
          for (const transcriptCase of playable) {
            await leased.settle();
            await leased.ask("flush_all\r\nquarantine off\r\n", "\r\n");
            await leased.ask("token drop_all unsafe\r\n", "\r\n");
            await t.step(transcriptCase.name, () => play(leased, transcriptCase));
          }
        } finally {
          await leased.close();
        }
      },
    });
  }
}
