import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { randomFrom } from "../support/random.ts";
import { play } from "../support/sessions/play.ts";
import type { Peer } from "../support/sessions/side.ts";
import { requestText, type TranscriptCase } from "../support/sessions/transcript.ts";
import { roundsOf } from "../support/rounds.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

// Replies do not depend on the places at which the network cuts a client's bytes. Every case is played again for every
// place in its requests; in long requests only some places around the first line's end, at the end,
// and drawn by lot are tried.

const WHOLE_LENGTH_MAX = 150;
const NEIGHBOURHOOD = 3;
const DRAWN = roundsOf(8);
/** Cases that send more than this are not sent byte by byte. */
const BYTEWISE_LENGTH_MAX = 20_000;

/** Parts of the transcripts, so that they can be played at the same time. */
export type Part = "binary" | "values" | "rest";

function partOf(transcript: string): Part {
  if (transcript.includes("binary")) return "binary";
  return /^(?:storage|errors|read)\b/.test(transcript) ? "values" : "rest";
}

/** Plays the transcripts of a part with cuts. */
export function testCuts(part: Part): void {
  for (const { name, options, cases } of readTranscripts()) {
    if (partOf(name) !== part) continue;
    Deno.test(`${name}: cut anywhere, the replies are the same`, async () => {
      // One store for all: hundreds of them would fill the machine's memory sooner than the collector looks.
      const side = new ConversationSide(options);
      for (const transcriptCase of cases) await playWithCuts(side, transcriptCase);
    });

    Deno.test(`${name}: sent byte by byte, the replies are the same`, async () => {
      const side = new ConversationSide(options);
      for (const transcriptCase of cases) {
        const length = requestsOf(transcriptCase).reduce((sum, text) => sum + text.length, 0);
        if (length > BYTEWISE_LENGTH_MAX) continue;
        await play(side, transcriptCase, async (peer, text) => {
          for (const byte of text) await peer.send(byte);
        });
        side.empty();
      }
    });
  }
}

async function playWithCuts(side: ConversationSide, transcriptCase: TranscriptCase): Promise<void> {
  for (const [cutRequest, text] of requestsOf(transcriptCase).entries()) {
    for (const cut of cutsOf(text)) {
      let request = 0;
      const send = async (peer: Peer, sent: string): Promise<void> => {
        if (request++ !== cutRequest) return await peer.send(sent);
        await peer.send(sent.slice(0, cut));
        await peer.send(sent.slice(cut));
      };
      try {
        await play(side, transcriptCase, send);
        side.empty();
      } catch (error) {
        const place = `request ${cutRequest + 1} cut at byte ${cut}`;
        throw new Error(`${transcriptCase.name}, ${place}: ${(error as Error).message}`);
      }
    }
  }
}

/** The sent text, with one digit for each learned number: precise enough to choose places to cut. */
function requestsOf({ events }: TranscriptCase): string[] {
  const requests: string[] = [];
  for (const event of events) {
    if (event.kind !== "send") continue;
    const digits = event.text.map((part) => typeof part === "string" ? part : "0");
    requests.push(requestText(digits, new Map()));
  }
  return requests;
}

function cutsOf(text: string): Iterable<number> {
  const cuts = new Set<number>();
  const add = (start: number, end: number): void => {
    for (let cut = Math.max(1, start); cut < Math.min(end, text.length); cut++) cuts.add(cut);
  };
  if (text.length <= WHOLE_LENGTH_MAX) {
    add(1, text.length);
    return cuts;
  }
  const lineEnd = text.indexOf("\n");
  add(lineEnd - NEIGHBOURHOOD, lineEnd + NEIGHBOURHOOD);
  add(text.length - NEIGHBOURHOOD, text.length);
  const random = randomFrom(text.length);
  for (let count = 0; count < DRAWN; count++) {
    cuts.add(1 + Math.floor(random() * (text.length - 1)));
  }
  return cuts;
}
