import { isAtLeast, startMemcached, testWithMemcached } from "../support/servers/memcached.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX } from "../support/sessions/socket_side.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";
import type { TranscriptCase } from "../support/sessions/transcript.ts";

// memcached must answer as the parts of the transcripts that are marked as shared. A machine
// without memcached skips these, by name.

function isShared(transcriptCase: TranscriptCase, version: string): boolean {
  const { sharedSince } = transcriptCase;
  return sharedSince !== undefined && isAtLeast(version, sharedSince) &&
    secondsOf(transcriptCase) <= REAL_SECONDS_MAX;
}

for (const transcript of readTranscripts()) {
  if (!transcript.cases.some(({ sharedSince }) => sharedSince !== undefined)) continue;
  testWithMemcached(transcript.name, async (peer, t): Promise<void> => {
    await using memcached = await startMemcached(peer, transcript.options);
    for (const transcriptCase of transcript.cases) {
      if (!isShared(transcriptCase, peer.version)) continue;
      await memcached.ask("flush_all\r\n", "\r\n");
      await t.step(transcriptCase.name, () => play(memcached, transcriptCase));
    }
  });
}
