import { parseTranscript, type Transcript } from "./transcript.ts";

const FOLDER = new URL("../../transcripts/", import.meta.url);

/** All transcripts, by name. */
export function readTranscripts(): Transcript[] {
  return [...Deno.readDirSync(FOLDER)].map(({ name }) => name)
    .filter((name) => name.endsWith(".txt")).sort()
    .map((name) => parseTranscript(name, Deno.readTextFileSync(new URL(name, FOLDER))));
}
