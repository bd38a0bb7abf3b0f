import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import type { Found } from "../../databases/base/backend.ts";
import type { MeteredLog } from "../meter/meter.ts";
import { reasonOf } from "../../process/reason.ts";
import { NO_LOG } from "../follow/follow_command.ts";
import type { OpenTruth } from "../meter/rows_meter.ts";

/** Sends a command to the origin. @returns The reply. @throws When there is none. */
export type AskOrigin = (request: Uint8Array) => Promise<Uint8Array>;

/** Keys that a text command can have, a character a byte. */
const TEXT_KEY = /^[\x21-\x7e\x80-\xff]{1,250}$/;
/** Results of views have this version: of them, two are read in one snapshot. */
const VIEW_VERSION = 1;
const LF = 0x0a;

/** Reads the database by the origin of a node, which asks it for each `uread`. */
export class NodeTruth implements OpenTruth {
  readonly log: MeteredLog = { waitForNow: (ms) => this.#waitForNow(ms) };
  readonly #ask: AskOrigin;

  constructor(ask: AskOrigin) {
    this.#ask = ask;
  }

  /** The origin answers with errors when another one has taken over. */
  isCurrent(): boolean {
    return true;
  }

  async read(key: string): Promise<readonly Found[]> {
    if (!TEXT_KEY.test(key)) throw new Error("a text command cannot have this key");
    const found = await this.#read(key);
    return found[0]!.version > VIEW_VERSION ? found : await this.#read(`${key} ${key}`);
  }

  async #read(keys: string): Promise<readonly Found[]> {
    return foundIn(await this.#ask(latin1Bytes(`uread ${keys}`)));
  }

  async close(): Promise<void> {}

  /** An origin that follows no log has nothing to wait for. */
  async #waitForNow(ms: number): Promise<boolean> {
    try {
      return latin1Text(await this.#ask(latin1Bytes(`follow wait now ${ms}`))) === "OK\r\n";
    } catch (error) {
      if (reasonOf(error).includes(NO_LOG)) return true;
      throw error;
    }
  }
}

/** Reads the reply to `uread`. @throws When it is another one. */
function foundIn(reply: Uint8Array): Found[] {
  const found: Found[] = [];
  for (let at = 0;;) {
    const end = reply.indexOf(LF, at) + 1;
    const line = latin1Text(reply, at, end - at);
    if (end === 0 || line === "END\r\n") break;
    at = end;
    const none = /^NONE \S+ (\d+) [CN]\r\n$/.exec(line);
    if (none !== null) {
      found.push({ row: null, version: Number(none[1]), epoch: 0 });
      continue;
    }
    const value = /^VALUE \S+ (\d+) (\d+) (\d+) [CN]\r\n$/.exec(line);
    if (value === null) throw new Error(`the origin answers ${JSON.stringify(line)}`);
    const [flags, length, version] = value.slice(1).map(Number) as [number, number, number];
    const row = { flags, data: reply.slice(at, at + length), version };
    found.push({ row, version, epoch: 0 });
    at += length + 2;
  }
  if (found.length === 0) {
    throw new Error(`the origin answers ${JSON.stringify(latin1Text(reply))}`);
  }
  return found;
}
