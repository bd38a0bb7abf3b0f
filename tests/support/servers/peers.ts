/** Names the folder that `.ci/newer_peers` has filled. */
const VARIABLE = "LEASED_TESTS_PEERS";

/** What is in the folder of newer peers: the paths of the entries that match. None where no folder is named. */
export function newerPeers(folder: string, pattern: RegExp): string[] {
  const root = Deno.env.get(VARIABLE);
  if (root === undefined) return [];
  return [...Deno.readDirSync(`${root}/${folder}`)].map(({ name }) => name)
    .filter((name) => pattern.test(name)).sort().map((name) => `${root}/${folder}/${name}`);
}
