/** CPU time of processes and threads (Linux). */

/** CPU time of all threads of a process, in nanoseconds. */
export function cpuNanoseconds(pid: number): number {
  return threadTimes(pid).values().reduce((sum, ns) => sum + ns, 0);
}

/** CPU time of each thread of a process in nanoseconds, by the path of its schedstat file. */
export function threadTimes(pid: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const { name } of Deno.readDirSync(`/proc/${pid}/task`)) {
    const path = `/proc/${pid}/task/${name}/schedstat`;
    try {
      times.set(path, Number(Deno.readTextFileSync(path).split(" ")[0]));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error; // the thread has just ended
    }
  }
  return times;
}

/**
 * How long a thread has run, without what the host has taken away. Right while the thread sleeps, a
 * little behind while it runs.
 */
export class ThreadTime {
  readonly #file: Deno.FsFile;
  readonly #text = new Uint8Array(64);

  /** @param path Of the thread's schedstat file. */
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
