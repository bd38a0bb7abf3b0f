/** Names the seed to run with; without it every run draws its own. */
const VARIABLE = "LEASED_TESTS_SEED";

/** Any text that all seeds are made of, so that a whole run of the tests can be had again; without it, chance. */
const SOURCE_VARIABLE = "LEASED_TESTS_SEEDS";

let drawnCount = 0;

/** The seed of a run: drawn, or the one that failed before. */
export function drawSeed(): number {
  const given = Deno.env.get(VARIABLE);
  if (given !== undefined) return Number(given);
  const source = Deno.env.get(SOURCE_VARIABLE);
  if (source !== undefined) return hash32(`${source} ${drawnCount++}`);
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}

/** FNV-1a. */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193);
  return hash >>> 0;
}

/** Runs `body` and says with which seed it failed. */
export async function withSeed(
  seed: number,
  body: (seed: number) => Promise<void> | void,
): Promise<void> {
  try {
    await body(seed);
  } catch (error) {
    if (error instanceof Error) error.message += `\n(${VARIABLE}=${seed} runs it again)`;
    throw error;
  }
}
