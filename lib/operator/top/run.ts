import { obey, print } from "../../cli/command_line.ts";
import { ExitCode } from "../../cli/exit.ts";
import type { Address, DialOptions, UnixAddress } from "../../peers/dial.ts";
import { addressText, PeerError } from "../../peers/peer.ts";
import { StatsClient, type Table } from "../stats_client.ts";
import { readTopCommand, type TopOptions } from "./options.ts";
import { type Choices, choicesOf, keysOf, pressed, screenLines, tableText } from "./screen.ts";
import { type Sample, VIEWS } from "./views.ts";
import { pause } from "../../process/pause.ts";

const OPEN_SCREEN = "\x1b[?1049h\x1b[?25l";
const CLOSE_SCREEN = "\x1b[?25h\x1b[?1049l";
const HOME = "\x1b[H";
const CLEAR_LINE = "\x1b[K";

/** `leased top` */
export function runTop(argv: readonly string[]): Promise<ExitCode> {
  return obey(readTopCommand(argv), show);
}

/** Shows servers, once or until the operator quits. */
async function show(options: TopOptions): Promise<ExitCode> {
  const { addresses, dial } = options.targets;
  const watches = addresses.map((address) => new ServerWatch(address, dial));
  if (options.once || !Deno.stdout.isTerminal()) return await showOnce(watches, options);
  await new Terminal(watches, options).run();
  return ExitCode.OK;
}

async function showOnce(
  watches: readonly ServerWatch[],
  { view, intervalMs }: TopOptions,
): Promise<ExitCode> {
  const look = (): Promise<unknown> =>
    Promise.all(watches.map((watch) => watch.look(VIEWS[view].tables)));
  await look();
  await pause(intervalMs);
  await look();
  const samples = watches.map(({ sample }) => sample);
  print(tableText(samples, view));
  return samples.some(({ reason }) => reason !== "") ? ExitCode.UNAVAILABLE : ExitCode.OK;
}

/** Looks at one server again and again, over one connection that is made again after an error. */
class ServerWatch {
  sample: Sample;
  readonly #address: Address | UnixAddress;
  readonly #dial: DialOptions;
  #client: StatsClient | null = null;
  #seenMs = 0;
  #isLooking = false;

  constructor(address: Address | UnixAddress, dial: DialOptions) {
    this.#address = address;
    this.#dial = dial;
    const name = addressText(address);
    this.sample = { name, reason: "connecting", now: new Map(), before: null, seconds: 0 };
  }

  /** Reads tables, unless the look before is not over. @returns Whether the sample is new. */
  async look(tables: readonly string[]): Promise<boolean> {
    if (this.#isLooking) return false;
    this.#isLooking = true;
    const { name } = this.sample;
    try {
      this.#client ??= await StatsClient.connect(this.#address, this.#dial);
      const now = new Map<string, Table | null>();
      for (const table of tables) now.set(table, await this.#client.table(table));
      const seenMs = performance.now();
      const before = this.sample.reason === "" ? this.sample.now : null;
      const seconds = (seenMs - this.#seenMs) / 1000;
      this.#seenMs = seenMs;
      this.sample = { name, reason: "", now, before, seconds };
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      this.#client?.close();
      this.#client = null;
      const reason = error.message.replace(`${name}: `, "");
      this.sample = { name, reason, now: new Map(), before: null, seconds: 0 };
    } finally {
      this.#isLooking = false;
    }
    return true;
  }
}

/** The operator's terminal. */
class Terminal {
  readonly #watches: readonly ServerWatch[];
  readonly #intervalMs: number;
  readonly #hasColour = !Deno.noColor;
  readonly #quit = Promise.withResolvers<void>();
  #choices: Choices;
  /** The samples on the screen: old ones while it is paused. */
  #samples: readonly Sample[] = [];

  constructor(watches: readonly ServerWatch[], { intervalMs, view }: TopOptions) {
    this.#watches = watches;
    this.#intervalMs = intervalMs;
    this.#choices = choicesOf(view);
  }

  /** Returns when the operator quits, or the terminal is gone. */
  async run(): Promise<void> {
    const hasKeys = Deno.stdin.isTerminal();
    const quit = (): void => this.#quit.resolve();
    const paint = (): void => this.#paint();
    Deno.addSignalListener("SIGINT", quit);
    if (Deno.build.os !== "windows") {
      Deno.addSignalListener("SIGTERM", quit);
      Deno.addSignalListener("SIGHUP", quit);
      Deno.addSignalListener("SIGWINCH", paint);
    }
    if (hasKeys) {
      Deno.stdin.setRaw(true);
      this.#readKeys();
    }
    print(OPEN_SCREEN);
    this.#look();
    const timer = setInterval(() => this.#look(), this.#intervalMs);
    try {
      await this.#quit.promise;
    } finally {
      clearInterval(timer);
      if (hasKeys) Deno.stdin.setRaw(false);
      print(CLOSE_SCREEN);
    }
  }

  /** Looks at all servers; each is shown when it has answered. */
  #look(): void {
    this.#paint();
    if (this.#choices.isPaused) return;
    for (const watch of this.#watches) {
      watch.look(VIEWS[this.#choices.view].tables).then((isNew) => isNew && this.#paint());
    }
  }

  #paint(): void {
    if (!this.#choices.isPaused || this.#samples.length === 0) {
      this.#samples = this.#watches.map(({ sample }) => sample);
    }
    const lines = screenLines(this.#samples, this.#choices, Deno.consoleSize(), this.#hasColour);
    const isShown = print(HOME + lines.map((line) => line + CLEAR_LINE).join("\r\n"));
    if (!isShown) this.#quit.resolve();
  }

  async #readKeys(): Promise<void> {
    for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
      for (const key of keysOf(text)) this.#press(key);
    }
    this.#quit.resolve();
  }

  #press(key: string): void {
    const { view } = this.#choices;
    const choices = pressed(this.#choices, key, this.#samples, Deno.consoleSize().rows);
    if (choices === null) return this.#quit.resolve();
    this.#choices = choices;
    if (choices.view === view) this.#paint();
    else this.#look();
  }
}
