/** Load generators that others wrote: those of Debian's package libmemcached-tools. */
import { CONNECTIONS } from "../rows.ts";

export const OTHER_GENERATORS = ["memcslap", "memcaslap"] as const;
export type OtherGenerator = typeof OTHER_GENERATORS[number];

/** Rows that they can send, by name, and the arguments for them. `memcslap` gets only; `memcaslap` gets 90 %. */
const ARGUMENTS: Readonly<Record<OtherGenerator, Readonly<Record<string, readonly string[]>>>> = {
  memcslap: { p1: ["-t", "get"], mget50: ["-t", "mget"] },
  memcaslap: { p1: [], mget50: ["-d", "50"] },
};
/** The shortest keys that memcaslap takes, values of 100 bytes, 10 % set and 90 % get. */
const MIX = "key\n17 17 1\nvalue\n100 100 1\ncmd\n0 0.1\n1 0.9\n";
/** Gets of each connection of memcslap, which cannot be told a time. */
const GETS = 1000;

/** Returns the names of the rows that the generator can send. */
export function rowsOf(generator: OtherGenerator): string[] {
  return Object.keys(ARGUMENTS[generator]);
}

/** Loads one server with a generator, which is started anew for each round. */
export class OtherLoad {
  readonly #mix: string;

  constructor(
    readonly generator: OtherGenerator,
    readonly port: number,
    readonly row: string,
  ) {
    this.#mix = Deno.makeTempFileSync();
    Deno.writeTextFileSync(this.#mix, MIX);
  }

  /** Runs the generator. @returns Gets and sets a second, as the server counts them. */
  async run(seconds: number): Promise<number> {
    const before = await this.#count();
    const startMs = performance.now();
    const args = this.generator === "memcslap"
      ? ["-c", `${CONNECTIONS}`, "-e", `${GETS}`, "-q"]
      : ["-F", this.#mix, "-T", "1", "-c", `${CONNECTIONS}`, "-w", "1k", "-t", `${seconds}s`];
    const { success, stdout, stderr } = await new Deno.Command(this.generator, {
      args: ["-s", `127.0.0.1:${this.port}`, ...args, ...ARGUMENTS[this.generator][this.row]!],
    }).output();
    const count = await this.#count() - before;
    if (!success || count === 0) {
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      throw new Error(`${this.generator} failed: ${out}${err}`);
    }
    return count / ((performance.now() - startMs) / 1000);
  }

  close(): void {
    Deno.removeSync(this.#mix);
  }

  async #count(): Promise<number> {
    using socket = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
    await socket.write(new TextEncoder().encode("stats\r\nquit\r\n"));
    const text = await new Response(socket.readable).text();
    const stats = text.matchAll(/^STAT cmd_(?:get|set) (\d+)/gm);
    return [...stats].reduce((sum, [, count]) => sum + Number(count), 0);
  }
}
