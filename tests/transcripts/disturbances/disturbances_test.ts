import { assert } from "@std/assert";
import { readTranscripts } from "../../support/sessions/transcript_files.ts";
import { INTERRUPTIONS, RESTARTS, STARTS } from "./disturbances.ts";
import { testDisturbance } from "./disturbed.ts";
import { ENTRIES, ENTRIES_MAX, entryFor } from "./exceptions.ts";

for (const disturbance of INTERRUPTIONS) {
  if (!disturbance.name.startsWith("a restart")) testDisturbance(disturbance);
}
for (const disturbance of STARTS) testDisturbance(disturbance);

Deno.test("the table of exceptions is short, and names disturbances and cases that exist", () => {
  const names = [...INTERRUPTIONS, ...RESTARTS, ...STARTS].map(({ name }) => name);
  const transcripts = new Map(readTranscripts().map(({ name, cases }) => [name, cases]));
  for (const entry of ENTRIES) {
    const { by, file, start } = entry;
    assert(names.some((name) => name.startsWith(by)), `no disturbance is called "${by}"`);
    const isThere = transcripts.get(file)?.some((one) => entryFor(one, [entry]) === entry);
    assert(isThere, `${file} has no case "${start}"`);
  }
  assert(ENTRIES.length <= ENTRIES_MAX, `${ENTRIES.length} exceptions`);
});
