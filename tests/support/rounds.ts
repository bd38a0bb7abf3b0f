/** How much more often than usual tests repeat what is random or a race: 1 unless given. */
const VARIABLE = "LEASED_TESTS_EFFORT";

/** Returns how often to repeat something: `usual`, times the effort that the environment asks for. */
export function roundsOf(usual: number): number {
  return Math.ceil(usual * Number(Deno.env.get(VARIABLE) ?? 1));
}

/** Returns one of `usual` values, drawn at random; the more, the more effort the environment asks for. */
export function sampleOf<Value>(
  values: readonly Value[],
  usual: number,
  random: () => number,
): Value[] {
  const share = roundsOf(1) / usual;
  return values.filter(() => random() < share);
}
