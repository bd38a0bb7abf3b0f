import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { play } from "../support/sessions/play.ts";
import { IN_PROCESS_VARIANTS } from "../support/sessions/slices.ts";
import { requireMutexForChanges } from "../support/version_audit.ts";
import { roundsOf } from "../support/rounds.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

/** With little effort, not all. */
const VARIANTS = IN_PROCESS_VARIANTS.slice(0, roundsOf(IN_PROCESS_VARIANTS.length));

for (const { name, options, cases } of readTranscripts()) {
  for (const transcriptCase of cases) {
    for (const variant of VARIANTS) {
      Deno.test(`${name}: ${transcriptCase.name}${variant.title}`, async () => {
        using side = new ConversationSide([...options, ...variant.options]);
        requireMutexForChanges(side.thread.memory);
        await play(side, transcriptCase);
      });
    }
  }
}
