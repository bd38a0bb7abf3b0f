const ROOT = new URL("../../", import.meta.url);
const FOLDERS = ["lib", "protocol", "store", "tests", "types"];

/** A source file of the repository. */
export interface Source {
  /** From the repository's root, like `store/cache.ts`. */
  readonly path: string;
  readonly text: string;
  /** Files of the repository it imports, also for their types. */
  readonly imports: readonly string[];
}

/** All TypeScript files. */
export function readSources(): Source[] {
  return ["main.ts", ...FOLDERS.flatMap((folder) => [...walk(`${folder}/`)])].map((path) => {
    const text = Deno.readTextFileSync(new URL(path, ROOT));
    return { path, text, imports: importsOf(path, text) };
  });
}

function* walk(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(new URL(folder, ROOT))) {
    if (isDirectory) yield* walk(`${folder}${name}/`);
    else if (name.endsWith(".ts")) yield folder + name;
  }
}

const IMPORT =
  /(?:\bfrom|^import|\bimport\()\s*"(\.[^"]+\.ts)"|new URL\("(\.[^"]+\.ts)", import\.meta\.url\)/gm;

function importsOf(path: string, text: string): string[] {
  return [...text.matchAll(IMPORT)].map(([, imported, address]) => {
    const { pathname } = new URL((imported ?? address)!, `file:///${path}`);
    return pathname.slice(1);
  });
}

/** Numbers of the lines that match. */
export function linesWith({ text }: Source, pattern: RegExp): number[] {
  return text.split("\n").flatMap((line, index) => pattern.test(line) ? [index + 1] : []);
}
