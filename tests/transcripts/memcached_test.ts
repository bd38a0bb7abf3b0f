import { isAtLeast, memcachedVersion, startMemcached } from "../support/servers/memcached.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX } from "../support/sessions/socket_side.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";
import type { TranscriptCase } from "../support/sessions/transcript.ts";

// What transcripts mark as shared is what memcached does. A machine without memcached skips these, by name.

const version = memcachedVersion();

function isShared(transcriptCase: TranscriptCase): boolean {
  const { sharedSince } = transcriptCase;
  return sharedSince !== undefined && isAtLeast(version ?? "0", sharedSince) &&
    secondsOf(transcriptCase) <= REAL_SECONDS_MAX;
}

for (const transcript of readTranscripts()) {
  const cases = transcript.cases.filter(isShared);
  Deno.test({
    name: `${transcript.name} on memcached ${version ?? "(not installed)"}`,
    ignore: version === undefined || cases.length === 0,
    async fn(t): Promise<void> {
      const memcached = await startMemcached(transcript.options);
      try {
        for (const transcriptCase of cases) {
          await memcached.ask("flush_all\r\n", "\r\n");
          await t.step(transcriptCase.name, () => play(memcached, transcriptCase));
        }
      } finally {
        await memcached.close();
      }
    },
  });
}
