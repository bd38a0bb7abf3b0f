import { ConversationSide } from "../support/conversation_side.ts";
import { play } from "../support/play.ts";
import { readTranscripts } from "../support/transcript_files.ts";

for (const { name, options, cases } of readTranscripts()) {
  for (const transcriptCase of cases) {
    Deno.test(`${name}: ${transcriptCase.name}`, async () => {
      const side = new ConversationSide(options);
      await play(side, transcriptCase);
      side.check();
    });
  }
}
