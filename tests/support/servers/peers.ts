/** Names the folder that `.ci/newer_peers` has filled. */
const VARIABLE = "LEASED_TESTS_PEERS";

/** Returns the paths of matching entries in the folder of newer peers; none if no folder is named. */
export function newerPeers(folder: string, pattern: RegExp): string[] {
  const root = Deno.env.get(VARIABLE);
  if (root === undefined) return [];
  return [...Deno.readDirSync(`${root}/${folder}`)].map(({ name }) => name)
    .filter((name) => pattern.test(name)).sort().map((name) => `${root}/${folder}/${name}`);
}

/** Returns a folder in the folder of newer peers, or undefined if there is none. */
export function newerPeersFolder(name: string): string | undefined {
  const folder = `${Deno.env.get(VARIABLE)}/${name}`;
  try {
    return Deno.statSync(folder).isDirectory ? folder : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the PATH has a program. */
export function hasProgram(name: string): boolean {
  return isInstalled(["sh", "-c", `command -v ${name}`]);
}

/** Whether a command that proves a program to be installed ends with status 0. */
export function isInstalled([program, ...args]: readonly string[]): boolean {
  try {
    return new Deno.Command(program!, { args, stdout: "null", stderr: "null" }).outputSync()
      .success;
  } catch {
    return false;
  }
}
