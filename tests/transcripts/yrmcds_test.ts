import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX } from "../support/sessions/socket_side.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";
import { yrmcdsInstalled, startYrmcds } from "../support/servers/yrmcds.ts";
import { needs } from "../support/needs/needs.ts";

// yrmcds must answer as the parts of the transcripts that are marked as yrmcds's. A machine
// without yrmcds skips these, by name.

const there = yrmcdsInstalled();

for (const { name, cases } of readTranscripts()) {
  const playable = cases.filter((one) => one.yrmcds && secondsOf(one) <= REAL_SECONDS_MAX);
  if (playable.length === 0) continue;
  Deno.test(`${name} on yrmcds${there ? "" : " (not installed)"}`, needs("yrmcds", there), async (t): Promise<void> => {
      for (const transcriptCase of playable) {
        // A server a case: for about a second after its flush_all, yrmcds forgets what is stored.
        await using yrmcds = await startYrmcds();
        await t.step(transcriptCase.name, () => play(yrmcds, transcriptCase));
      }
    });
}
