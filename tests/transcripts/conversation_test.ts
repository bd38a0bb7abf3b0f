import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { play } from "../support/sessions/play.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

for (const { name, options, cases } of readTranscripts()) {
  for (const transcriptCase of cases) {
    Deno.test(`${name}: ${transcriptCase.name}`, async () => {
      const side = new ConversationSide(options);
      await play(side, transcriptCase);
      side.check();
    });
  }
}
