/** CPU time of each thread of a process in nanoseconds, by the path of its schedstat file. */
export function threadTimes(pid: number): Map<string, number> {
  const tasks = [...Deno.readDirSync(`/proc/${pid}/task`)];
  const paths = tasks.map(({ name }) => `/proc/${pid}/task/${name}/schedstat`);
  return new Map(paths.map((path) => [path, Number(Deno.readTextFileSync(path).split(" ")[0])]));
}

/** The thread that ran most between two looks, by its path. */
export function busiestThread(before: Map<string, number>, after: Map<string, number>): string {
  const grown = ([path, ns]: [string, number]): number => ns - (before.get(path) ?? 0);
  return [...after].reduce((most, one) => grown(one) > grown(most) ? one : most)[0];
}

/**
 * How long a thread has run, without what the host has taken away. Right while the thread sleeps, a
 * little behind while it runs.
 */
export class ThreadTime {
  readonly #file: Deno.FsFile;
  readonly #text = new Uint8Array(64);

  constructor(path: string) {
    this.#file = Deno.openSync(path);
  }

  nanoseconds(): number {
    this.#file.seekSync(0, Deno.SeekMode.Start);
    this.#file.readSync(this.#text);
    let sum = 0;
    for (let at = 0; this.#text[at]! >= 48; at++) sum = sum * 10 + this.#text[at]! - 48;
    return sum;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}
