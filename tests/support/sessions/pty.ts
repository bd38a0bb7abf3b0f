import { assert } from "@std/assert";
import { bytesOf, textOf } from "./side.ts";
import { waitingFor } from "../waiting.ts";

/** A terminal of script(1), of util-linux. */
export class Pty implements AsyncDisposable {
  /** The bytes sent to the screen since the last `until`. */
  shown = "";
  readonly #child: Deno.ChildProcess;
  readonly #keys: WritableStreamDefaultWriter<Uint8Array>;
  readonly #output: ReadableStreamDefaultReader<Uint8Array>;

  /** @param args Of Deno. */
  constructor(size: string, args: readonly string[], env: Readonly<Record<string, string>>) {
    const line = [Deno.execPath(), ...args].join(" ");
    this.#child = new Deno.Command("script", {
      args: ["-qefc", `stty ${size}; exec ${line}`, "/dev/null"],
      env,
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.#keys = this.#child.stdin.getWriter();
    this.#output = this.#child.stdout.getReader();
  }

  async press(keys: string): Promise<void> {
    this.shown = "";
    await this.#keys.write(bytesOf(keys));
  }

  async until(text: string): Promise<void> {
    while (!this.shown.includes(text)) {
      assert(await this.#more(), `ended before ${text}: ${JSON.stringify(this.shown)}`);
    }
  }

  /** Returns the exit status, after the end of the output. */
  async ended(): Promise<number> {
    while (await this.#more());
    return (await this.#child.status).code;
  }

  async #more(): Promise<boolean> {
    const reading = this.#output.read();
    const { value } = await waitingFor(() => `a screen after ${this.shown.slice(-200)}`, reading);
    this.shown += value === undefined ? "" : textOf(value);
    return value !== undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#keys.close().catch(() => {});
    try {
      this.#child.kill();
    } catch {
      // It has ended.
    }
    await this.#output.cancel();
    await this.#child.status;
  }
}

/** Whether this machine has it. */
export const HAS_SCRIPT = Deno.build.os === "linux" &&
  new Deno.Command("sh", { args: ["-c", "command -v script"], stdout: "null" }).outputSync()
    .success;
