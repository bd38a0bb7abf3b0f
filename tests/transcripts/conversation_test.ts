import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { play } from "../support/sessions/play.ts";
import { SLICES } from "../support/sessions/slices.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

for (const { name, options, cases } of readTranscripts()) {
  for (const transcriptCase of cases) {
    for (const slice of SLICES) {
      Deno.test(`${name}: ${transcriptCase.name}${slice.title}`, async () => {
        const side = new ConversationSide([...options, ...slice.options]);
        await play(side, transcriptCase);
        side.check();
      });
    }
  }
}
