import type { Source } from "./sources.ts";

// Rules about imports. Each function lists the breaches of one rule; type imports count.

/** A folder, or one file, with what the rest of the repository may import of it. */
export type Room = readonly [
  /**
   * A folder, ending with a slash, or a file; behind it, with blanks between, files of other folders
   * that stand beside its files. The longest path that fits a file says in which room it is.
   */
  paths: string,
  /**
   * Files that others may import, without `.ts`, one blank between them; `*`: all; `folder/*`: all
   * of a folder inside.
   */
  doors: string,
];

/** Sets of files that import each other, each with its files in alphabetical order. */
export function importCycles(sources: readonly Source[]): string[][] {
  const imports = new Map(sources.map((source) => [source.path, source.imports]));
  const reached = new Map(sources.map(({ path }) => [path, reachableFrom(path, imports)]));
  const cycles = new Map<string, string[]>();
  for (const [path, others] of reached) {
    if (!others.has(path)) continue;
    const cycle = [...others].filter((other) => reached.get(other)?.has(path)).sort();
    cycles.set(cycle[0]!, cycle);
  }
  return [...cycles.values()];
}

function reachableFrom(
  path: string,
  imports: ReadonlyMap<string, readonly string[]>,
): Set<string> {
  const reached = new Set<string>();
  const next = [...imports.get(path) ?? []];
  for (let at = next.pop(); at !== undefined; at = next.pop()) {
    if (reached.has(at)) continue;
    reached.add(at);
    next.push(...imports.get(at) ?? []);
  }
  return reached;
}

/**
 * Imports of a higher room from a lower one, or of a file that is in no room.
 *
 * @param rooms From the bottom up.
 */
export function upwardImports(sources: readonly Source[], rooms: readonly Room[]): string[] {
  const level = (path: string): number => rooms.findIndex((room) => room === roomOf(path, rooms));
  return sources.flatMap(({ path, imports }) =>
    imports.filter((imported) => level(imported) > level(path) || level(imported) < 0)
      .map((imported) => `${path} imports ${imported}`)
  );
}

/** The innermost room of a file. */
export function roomOf(path: string, rooms: readonly Room[]): Room | undefined {
  return rooms.flatMap((room) => room[0].split(" ").map((part) => ({ room, part })))
    .filter(({ part }) => path.startsWith(part))
    .sort((a, b) => b.part.length - a.part.length)[0]?.room;
}

function folderOf([paths]: Room): string {
  return paths.split(" ")[0]!;
}

/** Imports of a room's file from outside, where that file is no door of it. */
export function importsPastDoors(sources: readonly Source[], rooms: readonly Room[]): string[] {
  return sources.flatMap(({ path, imports }) =>
    imports.filter((imported) =>
      rooms.some((room) => {
        const folder = folderOf(room);
        return imported.startsWith(folder) && !path.startsWith(folder) &&
          !isDoor(imported.slice(folder.length), room[1]);
      })
    ).map((imported) => `${path} imports ${imported}`)
  );
}

function isDoor(file: string, doors: string): boolean {
  return doors.split(" ").some((door) =>
    door.endsWith("*") ? file.startsWith(door.slice(0, -1)) : file === `${door}.ts` || file === ""
  );
}

/** Doors that no file imports. */
export function unusedDoors(sources: readonly Source[], rooms: readonly Room[]): string[] {
  return rooms.flatMap((room) => {
    const folder = folderOf(room);
    return room[1].split(" ").filter((door) => {
      const isUsed = sources.some(({ path, imports }) =>
        !path.startsWith(folder) &&
        imports.some((to) => to.startsWith(folder) && isDoor(to.slice(folder.length), door))
      );
      return door !== "" && !isUsed;
    }).map((door) => folder + door);
  });
}

/** Folders with too many files of their own. */
export function crowdedFolders(sources: readonly Source[], filesMax: number): string[] {
  const counts = new Map<string, number>();
  for (const { path } of sources) {
    const folder = path.slice(0, path.lastIndexOf("/") + 1);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count > filesMax)
    .map(([folder, count]) => `${folder} has ${count} files`);
}
