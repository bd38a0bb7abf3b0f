import { REFUSAL, REPLY } from "../../../protocol/reply/replies.ts";
import { concatBytes, latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import { oneWord } from "../../../store/base/key_text.ts";
import { inSlices } from "../key_slices.ts";
import type { Edit } from "../../databases/base/backend.ts";
import { type Flows, OF_SUCCESSOR, type Read } from "../flows/flows.ts";
import { RowWrite, type WriteReply } from "../flows/row_write.ts";
import { epochOf } from "../flows/token_states.ts";
import type { RowFlow } from "../flows/steps.ts";
import { NO_LOG, positionOf } from "../follow/follow_command.ts";
import type { Follower } from "../follow/follower.ts";
import type { Stat } from "../../../protocol/stats/entry.ts";
import { rowStats } from "./row_stats.ts";
import type { StepRunner } from "./step_runner.ts";
import { nodeLines, type NodeServer } from "../nodes/node_server.ts";
import { oneLine } from "../../process/reason.ts";

/** Executes a write in the next group. */
type AddWrite = (write: RowWrite) => void;
type ReadFlow = (keys: readonly string[]) => RowFlow<readonly Read[]>;
type Reply = string | Uint8Array<ArrayBuffer>;
type Handler = (words: readonly string[], command: Command) => Promise<Reply> | Reply;

/** The parts of a command beside its words. */
interface Command {
  /** The value behind its line. */
  readonly data: Uint8Array;
  readonly addWrite: AddWrite;
  /** `RowSource.command` */
  readonly signal: AbortSignal;
}

const KEY_LENGTH_MAX = 250;
/** Longest time of `follow wait`. */
const FOLLOW_WAIT_MS_MAX = 60_000;
const UINT32_MAX = 2 ** 32 - 1;
const OWNER = /^[\x21-\x7e]{1,64}$/;
const LF = 0x0a;
/** Commands that a node may forward: those of writers. The user of a node is no administrator of its origin. */
const FORWARDED = /^(?:(?:uget|uread|uput|udelete|follow|token (?:get|release)) |nodes$)/;
const NOT_FORWARDED = "this command is for the origin";
const LONG_REPLY = "the rows are longer than a value may be (-I): ask for fewer keys at once";
const CR_LF = latin1Bytes("\r\n");
const BAD_FORMAT = latin1Text(REFUSAL.BAD_FORMAT);
const BAD_OWNER = latin1Text(REFUSAL.BAD_OWNER);
const UNKNOWN_COMMAND = latin1Text(REPLY.ERROR);

/** The follower of the database's log. */
export interface Following {
  readonly follower: Follower;
  /**
   * Waits until every change is applied that was committed by now, and no result of views before is cached.
   *
   * @returns Whether that was within `ms`, and before the signal.
   * @throws The database's error.
   */
  waitForNow(ms: number, signal?: AbortSignal): Promise<boolean>;
  /** This origin's right to serve rows: see `ServingRight`. */
  readonly right: { readonly isValid: boolean; readonly source: string | undefined };
}

/** Returns the words of a command's line. A line may be as long as a value: the time grows with its length only. */
function wordsOf(request: Uint8Array): string[] {
  const end = request.indexOf(LF);
  const line = latin1Text(request.subarray(0, end < 0 ? request.length : end));
  // No `trim`: a key may end with a byte that is a blank in other texts, such as the last one of "à".
  return line.replace(/\r$/, "").split(/ +/).filter((word) => word !== "");
}

/** An invalid request; the message is the reply. */
class Refusal extends Error {}

/** Commands of update tokens and of nodes, for writers, readers and administrators that know them. */
export class RowCommands {
  readonly #flows: Flows;
  readonly #runner: StepRunner;
  readonly #nodeServer: NodeServer | null;
  readonly #handlers: Readonly<Record<string, Handler>> = {
    uget: (words, { signal }) => this.#uget(words, (keys) => this.#flows.uget(keys), signal),
    uread: (words, { signal }) => this.#uget(words, (keys) => this.#flows.read(keys), signal),
    uput: (words, command) => this.#uput(words, command),
    udelete: (words, { addWrite }) => this.#udelete(words, addWrite),
    token: (words) => this.#token(words),
    nodes: (words) => this.#nodes(words),
    follow: (words, { signal }) => this.#follow(words, signal),
    stats: () => this.#stats(),
    node: (words, command) => this.#node(words, command),
  };
  readonly #following: Following | null;
  readonly #meterStats: () => readonly Stat[];
  readonly #fits: (keyLength: number, valueLength: number, flags: number) => boolean;

  /**
   * @param fits `RowOperations.fits`, for replies, which are stored on their way to the client.
   * @param nodeServer Serves nodes; null: there are none.
   * @param following Null: the log is not followed.
   * @param meterStats Statistics of the meter, if there is one.
   */
  constructor(
    flows: Flows,
    runner: StepRunner,
    nodeServer: NodeServer | null,
    following: Following | null,
    fits: (keyLength: number, valueLength: number, flags: number) => boolean,
    meterStats: () => readonly Stat[] = () => [],
  ) {
    this.#meterStats = meterStats;
    this.#fits = fits;
    this.#following = following;
    this.#flows = flows;
    this.#runner = runner;
    this.#nodeServer = nodeServer;
  }

  /**
   * Executes a command.
   *
   * @param request The line without CR LF, LF, and the value if the command has one.
   * @param addWrite Executes a write in the next group.
   * @param signal `RowSource.command`
   * @returns The reply, with CR LF.
   * @throws The database's error.
   */
  async execute(
    request: Uint8Array,
    addWrite: AddWrite,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const end = request.indexOf(LF);
    const [name = "", ...words] = wordsOf(request);
    if (words.at(-1) === "noreply") words.pop();
    try {
      const handler = this.#handlers[name];
      if (handler === undefined) throw new Refusal(UNKNOWN_COMMAND);
      const data = end < 0 ? request : request.subarray(end + 1);
      const reply = await handler(words, { data, addWrite, signal });
      return typeof reply === "string" ? latin1Bytes(reply) : reply;
    } catch (error) {
      if (error instanceof Refusal) return latin1Bytes(error.message);
      throw error;
    }
  }

  /**
   * `uget <key>+`, for clients that may keep rows; `uread <key>+`, for those that keep none. Earlier clients name a
   * cache of a list first, with `@`: they must not take its rows for those of a key.
   */
  async #uget(words: readonly string[], read: ReadFlow, signal: AbortSignal): Promise<Reply> {
    const keys = words.map(keyOf);
    if (keys.length === 0 || keys[0]!.startsWith("@")) throw new Refusal(BAD_FORMAT);
    const parts: Uint8Array[] = [];
    let length = 0;
    const add = (part: Uint8Array): void => {
      parts.push(part);
      length += part.length;
    };
    for await (const [key, found] of this.#read(keys, read, signal)) {
      const { row, version, cacheable, problem } = found;
      if (problem !== undefined) throw new Error(oneLine(problem));
      const mark = cacheable ? "C" : "N";
      if (row === null) {
        add(latin1Bytes(`NONE ${key} ${version} ${mark}\r\n`));
      } else {
        add(latin1Bytes(`VALUE ${key} ${row.flags} ${row.data.length} ${version} ${mark}\r\n`));
        add(row.data);
        add(CR_LF);
      }
      if (!this.#fits(0, length, 0)) throw new Error(LONG_REPLY);
    }
    add(latin1Bytes("END\r\n"));
    return concatBytes(parts);
  }

  /** Reads rows, in slices: no more of them are in memory than the caller needs. */
  async *#read(
    keys: readonly string[],
    read: ReadFlow,
    signal: AbortSignal,
  ): AsyncGenerator<readonly [string, Read]> {
    for await (
      const { first, reads } of inSlices(keys, (slice) => {
        signal.throwIfAborted();
        return this.#runner.run(read(slice));
      })
    ) {
      for (const [index, read] of reads.entries()) yield [keys[first + index]!, read];
    }
  }

  /** `uput <key> <flags> <bytes> <id>` */
  async #uput(words: readonly string[], { data, addWrite }: Command): Promise<string> {
    const [key = "", flags = "", length = "", id = ""] = words;
    if (words.length !== 4 || numberOf(length, UINT32_MAX) !== data.length) {
      throw new Refusal(BAD_FORMAT);
    }
    const change = { flags: numberOf(flags, UINT32_MAX), data };
    return this.#answerPut(await put(addWrite, keyOf(key), idOf(id), change), "STORED");
  }

  /** `udelete <key> <id>` */
  async #udelete(words: readonly string[], addWrite: AddWrite): Promise<string> {
    const [key = "", id = ""] = words;
    if (words.length !== 2) throw new Refusal(BAD_FORMAT);
    return this.#answerPut(await put(addWrite, keyOf(key), idOf(id), "delete"), "DELETED");
  }

  async #node(words: readonly string[], command: Command): Promise<Reply> {
    const { data, addWrite, signal } = command;
    if (this.#nodeServer === null) throw new Refusal(UNKNOWN_COMMAND);
    if (this.#flows.isDeposed) throw new Error(this.#flows.deposedText);
    if (words[0] === "command") {
      if (!FORWARDED.test(wordsOf(data).join(" "))) throw new Error(NOT_FORWARDED);
      const reply = await this.execute(data, addWrite, signal);
      const line = latin1Bytes(`NODE ${reply.length}\r\n`);
      return concatBytes([line, reply]);
    }
    return await this.#nodeServer.execute(words, data, addWrite, signal);
  }

  #answerPut(reply: WriteReply, word: string): string {
    switch (reply.kind) {
      case "committed":
        return `${word} ${reply.version}\r\n`;
      case "revoked":
      case "busy":
      case "locked":
        return `${reply.kind.toUpperCase()}\r\n`;
      case "unknown":
        throw new Error(`outcome unknown: ${oneLine(reply.reason)}`);
      case "failed":
        throw new Error(oneLine(reply.reason));
      default:
        return "NOT_FOUND\r\n";
    }
  }

  /** Reads the id of a token. @throws When only the origin that has taken over can know it. */
  #ownId(text: string): number {
    const id = idOf(text);
    if (epochOf(id) > this.#flows.states.epoch) throw new Error(OF_SUCCESSOR);
    return id;
  }

  /** `token get|release|revoke|resolve|list` */
  async #token([subcommand, key = "", third, ...more]: readonly string[]): Promise<string> {
    const { states } = this.#flows;
    if (more.length > 0) throw new Refusal(BAD_FORMAT);
    if (subcommand === "list") {
      const lines = [...states.list(key)].map(({ id, key, owner, state }) =>
        `TOKEN ${oneWord(key)} ${id} ${state} ${owner || "-"}\r\n`
      );
      return `${lines.join("")}END\r\n`;
    }
    if (keyOf(key) === "") throw new Refusal(UNKNOWN_COMMAND);
    switch (subcommand) {
      case "get":
        if (third !== undefined && !OWNER.test(third)) throw new Refusal(BAD_OWNER);
        return `TOKEN ${states.get(key, third ?? "")}\r\n`;
      case "release":
        return { released: "OK\r\n", none: "NOT_FOUND\r\n", busy: "BUSY\r\n" }[
          states.release(key, this.#ownId(third ?? ""))
        ];
      case "revoke": {
        const { revoked, busy } = states.revoke(
          key,
          third === undefined ? undefined : this.#ownId(third),
        );
        return busy > 0 && revoked === 0 ? "BUSY\r\n" : `OK ${revoked}\r\n`;
      }
      case "resolve": {
        const resolve = this.#flows.resolve(key, idOf(third ?? ""));
        return this.#answerPut(await this.#runner.run(resolve), "STORED");
      }
      default:
        throw new Refusal(UNKNOWN_COMMAND);
    }
  }

  /** `follow wait <position|now> <ms>`: every change before the position is applied. */
  async #follow(
    [subcommand, position = "", ms = "", ...more]: readonly string[],
    signal: AbortSignal,
  ): Promise<string> {
    if (subcommand !== "wait" || more.length > 0) throw new Refusal(UNKNOWN_COMMAND);
    if (this.#following === null) {
      throw new Error(NO_LOG);
    }
    const timeoutMs = numberOf(ms, FOLLOW_WAIT_MS_MAX);
    const { follower, right } = this.#following;
    const target = position === "now" ? position : positionOf(position);
    if (target === null) throw new Refusal(BAD_FORMAT);
    const isApplied = target === "now"
      ? await this.#following.waitForNow(timeoutMs, signal)
      : await follower.wait(target, timeoutMs, signal);
    if (!isApplied) return "TIMEOUT\r\n";
    if (this.#flows.isDeposed) throw new Error(this.#flows.deposedText);
    // Another origin may serve by now, which has not followed the log so far.
    if (!right.isValid) {
      throw new Error(`rows are not available: no confirmation from ${right.source}`);
    }
    return "OK\r\n";
  }

  /** `stats rows` */
  #stats(): string {
    const nodes = this.#nodeServer?.states ?? [];
    const lines = [
      ...rowStats(this.#flows, this.#runner, nodes, this.#following?.follower),
      ...this.#meterStats(),
    ].map(({ name, value }) => `STAT ${name} ${value}\r\n`);
    return `${lines.join("")}${latin1Text(REPLY.END)}`;
  }

  /** `nodes [forget <name>]` */
  #nodes([subcommand, name, ...more]: readonly string[]): string {
    if (subcommand === "forget" && name !== undefined && more.length === 0) {
      return this.#nodeServer?.forget(name) === true ? "OK\r\n" : "NOT_FOUND\r\n";
    }
    if (subcommand !== undefined) throw new Refusal(UNKNOWN_COMMAND);
    return `${nodeLines(this.#nodeServer?.states ?? [])}${latin1Text(REPLY.END)}`;
  }
}

function put(addWrite: AddWrite, key: string, id: number, edit: Edit): Promise<WriteReply> {
  const bytes = typeof edit === "object" ? edit.data.length : 0;
  const sinceMs = performance.now();
  return new Promise((answer) =>
    addWrite(new RowWrite({ key, edit, writerTokenId: id, bytes, sinceMs, answer }))
  );
}

/** Returns the word as a key. @throws Refusal when it is longer than 250 bytes. */
function keyOf(word: string): string {
  if (word.length > KEY_LENGTH_MAX) throw new Refusal(BAD_FORMAT);
  return word;
}

/** Returns the word as a whole number 0..max. @throws Refusal */
function numberOf(word: string, max: number): number {
  const number = /^\d{1,16}$/.test(word) ? Number(word) : NaN;
  if (!(number <= max)) throw new Refusal(BAD_FORMAT);
  return number;
}

/** Returns the word as a token's id. @throws Refusal */
function idOf(word: string): number {
  return numberOf(word, Number.MAX_SAFE_INTEGER);
}
