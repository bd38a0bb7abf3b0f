/** Names the seed to run with; without it every run draws its own. */
const VARIABLE = "LEASED_TESTS_SEED";

/** The seed of a run: drawn, or the one that failed before. */
export function drawSeed(): number {
  const given = Deno.env.get(VARIABLE);
  return given === undefined ? crypto.getRandomValues(new Uint32Array(1))[0]! : Number(given);
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
