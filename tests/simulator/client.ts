import { latin1Bytes, latin1Text } from "../../store/base/bytes.ts";
import type { History, Operation } from "./history.ts";
import { replyName } from "./coverage.ts";
import type { End, Network, Receiver } from "./network.ts";
import { type ClientPlan, READS, type Request } from "./plan.ts";
import { PORT } from "./server.ts";
import type { Event, Process, World } from "./world.ts";

/**
 * Share of failures after which a client goes to the next server: of writes, and of reads. Those that stay see what a
 * server still answers that the others have given up.
 */
const TURN_SHARE = 0.4;
const READ_TURN_SHARE = 0.05;
/** Pause after an error, before the next request. */
const PAUSE_MS = 20;
/** The longest pause. */
const PAUSE_MS_MAX = 1000;
/** How long a connection may take. */
const CONNECT_MS = 1000;
/** How long a writer waits until its change is followed. */
const FOLLOW_MS = 3000;
/** A reply that is complete: its lines, each with its value. */
type Lines = readonly (readonly [line: string, value: string])[];
/** Replies of reads go on until this. */
const END = "END";
const UNKNOWN = /outcome unknown/;
/** Views: before the id of an article, and of all of them. */
const VIEW = "article:";
const LIST = "articles";

/** An article, as the views have it. */
interface Article {
  readonly id: number;
  readonly value: string;
  readonly version: number;
}

/**
 * Writes to the database without a server.
 *
 * @param done Called, perhaps later, with the position to wait for, or `now`; null: nothing is committed.
 */
export type WriteDirectly = (
  key: string,
  value: string,
  done: (position: string | null) => void,
) => void;

interface Pending {
  readonly request: Request;
  /** The version that a `cas` compares. */
  readonly compared: number;
  readonly start: number;
  lines: [string, string][];
  /** The update token of a `uput`; "": it has none yet. Of `direct`: what is waited for. */
  token: string;
  /** How often it was asked again. */
  attempts: number;
}

/** A client of the text protocol, as applications have them. It notes what it did, and saw. */
export class StockClient {
  readonly #world: World;
  readonly #network: Network;
  readonly #history: History;
  readonly #plan: ClientPlan;
  readonly #process: Process;
  /** Versions that `gets` has seen, by key. */
  readonly #versions = new Map<string, number>();
  #end: End | null = null;
  #host = 0;
  #next = 0;
  /** It asks for the requests before this one. */
  #last: number;
  readonly #pending: Pending[] = [];
  #text = "";
  #timer: Event | undefined;
  /** Requests that are asked again: what they ask for is done once. */
  readonly #again: Pending[] = [];
  /** Those that wait before that. */
  #waiting = 0;
  #isConnecting = false;
  /** The next request has its time, which has come when it is due. */
  #isPlanned = false;
  #isDue = false;
  /** Requests that were answered with a result. */
  answered = 0;
  readonly #isStubborn: boolean;
  readonly #writeDirectly: WriteDirectly;
  /** Keys of all articles. */
  readonly #articles: readonly string[];

  /** @param isStubborn Whether a request that fails is asked again, until it succeeds. */
  constructor(
    world: World,
    network: Network,
    history: History,
    process: Process,
    plan: ClientPlan,
    isStubborn: boolean,
    others: {
      readonly articles: readonly string[];
      readonly writeDirectly: WriteDirectly;
    },
  ) {
    this.#articles = others.articles;
    this.#writeDirectly = others.writeDirectly;
    this.#world = world;
    this.#network = network;
    this.#history = history;
    this.#process = process;
    this.#plan = plan;
    this.#last = plan.requests.length;
    this.#isStubborn = isStubborn;
  }

  get isDone(): boolean {
    return this.#next >= this.#last && this.#pending.length === 0 &&
      this.#again.length === 0 && this.#waiting === 0;
  }

  /** Asks for nothing more than it has asked for. */
  finish(): void {
    this.#last = this.#next;
  }

  /** What it waits for, for messages. */
  get waitsFor(): string {
    const { name, hosts } = this.#plan;
    const [first] = [...this.#pending, ...this.#again];
    const left = this.#last - this.#next;
    const what = first === undefined ? "" : ` for ${first.request.kind} of ${first.request.keys}`;
    return `${name} waits at ${hosts[this.#host]}${what}; ${left} requests are left`;
  }

  /** Has the next request be asked after its pause. */
  start(extraMs = 0): void {
    const request = this.#plan.requests[this.#next];
    if (request === undefined || this.#next >= this.#last || this.#isPlanned) return;
    this.#isPlanned = true;
    this.#world.timer(request.pauseMs + extraMs, this.#process, () => {
      this.#isDue = true;
      this.#ask();
    });
  }

  #ask(): void {
    if (this.#again.length > 0) {
      if (this.#end === null) return this.#connect();
      for (const each of this.#again.splice(0)) this.#send(each);
    }
    if (!this.#isDue || this.#next >= this.#last) return;
    if (this.#pending.length >= this.#plan.depth) return;
    if (this.#end === null) return this.#connect();
    const request = this.#plan.requests[this.#next]!;
    const start = this.#history.tick();
    this.#next++;
    this.#isPlanned = false;
    this.#isDue = false;
    const compared = this.#compared(request.keys[0] ?? "");
    const pending = { request, compared, start, lines: [], token: "", attempts: 0 };
    if (request.kind === "direct") this.#write(pending);
    else this.#send(pending);
    this.start();
  }

  /** Writes without a server, again until the change is committed. Then it is waited for at a server. */
  #write(pending: Pending): void {
    const { request } = pending;
    this.#waiting++;
    this.#writeDirectly(request.keys[0]!, valueOf(request), (position) => {
      this.#waiting--;
      if (position === null) return this.#sendAgain(pending, () => this.#write(pending));
      // Programs that cannot ask for the position have the server do it.
      pending.token = request.id % 2 === 0 ? position : "now";
      this.#again.push(pending);
      this.#ask();
    });
  }

  #send(pending: Pending): void {
    const text = this.#textOf(pending);
    pending.lines = [];
    this.#pending.push(pending);
    this.#world.note(this.#plan.name, `asks ${text.replaceAll("\r\n", " ").trim()}`);
    this.#end!.send(latin1Bytes(text));
    if (this.#pending.length === 1) this.#watch();
  }

  /** Asks for the same once more, after a pause that grows. */
  #sendAgain(
    pending: Pending,
    act = (): void => {
      this.#again.push(pending);
      this.#ask();
    },
  ): void {
    const pauseMs = Math.min(PAUSE_MS * 2 ** pending.attempts++, PAUSE_MS_MAX);
    this.#world.timer(pauseMs, this.#process, () => {
      this.#waiting--;
      act();
    });
    this.#waiting++;
  }

  #textOf({ request, compared, token }: Pending): string {
    const { id, kind, keys } = request;
    const [key = ""] = keys;
    const value = valueOf(request);
    switch (kind) {
      case "get":
      case "getMany":
        return `get ${keys.join(" ")}\r\n`;
      case "gets":
      case "uget":
        return `${kind} ${key}\r\n`;
      case "set":
      case "add":
        return `${kind} ${key} 0 0 ${value.length}\r\n${value}\r\n`;
      case "cas":
        return `cas ${key} 0 0 ${value.length} ${compared}\r\n${value}\r\n`;
      case "delete":
        return `delete ${key}\r\n`;
      case "flush":
        return "flush_all\r\n";
      case "uput":
        if (token === "") return `token get ${key} w${id}\r\n`;
        return `uput ${key} 0 ${value.length} ${token}\r\n${value}\r\n`;
      case "view":
        return `get ${keys.map((each) => `${VIEW}${each.slice(1)}`).join(" ")}\r\n`;
      case "list":
        return `get ${LIST}\r\n`;
      case "direct":
        return `follow wait ${token} ${FOLLOW_MS}\r\n`;
    }
  }

  /** The version of a row that the client has seen last. */
  #compared(key: string): number {
    return this.#versions.get(key) ?? 1;
  }

  // --- the connection ------------------------------------------------------------------------------

  #connect(): void {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    const { hosts } = this.#plan;
    const address = `${hosts[this.#host]}:${PORT}`;
    let isOver = false;
    const fail = (): void => {
      if (isOver) return;
      isOver = true;
      late.isCancelled = true;
      this.#isConnecting = false;
      this.#turn();
      this.#world.timer(PAUSE_MS, this.#process, () => this.#ask());
    };
    const giveUp = this.#network.connect(this.#process, address, (end) => {
      isOver = true;
      late.isCancelled = true;
      this.#isConnecting = false;
      this.#end = end;
      this.#text = "";
      this.#world.after(0, this.#process, () => this.#ask());
      return this.#receiver;
    }, fail);
    const late = this.#world.timer(CONNECT_MS, this.#process, () => {
      giveUp();
      fail();
    });
  }

  readonly #receiver: Receiver = {
    received: (bytes) => this.#received(latin1Text(bytes)),
    ended: () => this.#lose("closed"),
    broken: () => this.#lose("broken"),
  };

  #watch(): void {
    if (this.#timer !== undefined) this.#timer.isCancelled = true;
    const { patienceMs } = this.#plan;
    if (this.#pending.length === 0 || patienceMs === null) return;
    this.#timer = this.#world.timer(patienceMs, this.#process, () => this.#lose("silent"));
  }

  /** Whether it tries another server, after a request has failed. */
  #isTired({ request }: Pending): boolean {
    return this.#world.random() < (READS.has(request.kind) ? READ_TURN_SHARE : TURN_SHARE);
  }

  /** Goes to the next server, unless it waits for a reply of this one. */
  #leave(): void {
    if (this.#pending.length > 0 || this.#end === null) return;
    this.#end.reset();
    this.#end = null;
    this.#turn();
  }

  #turn(): void {
    this.#host = (this.#host + 1) % this.#plan.hosts.length;
  }

  /** The connection is gone: what was asked has an unknown outcome. */
  #lose(why: string): void {
    const end = this.#end;
    if (end === null) return;
    this.#end = null;
    end.reset();
    if (this.#timer !== undefined) this.#timer.isCancelled = true;
    this.#world.note(this.#plan.name, `loses its connection: ${why}`);
    const [first] = this.#pending;
    if (why === "silent" && first !== undefined && this.#isTired(first)) this.#turn();
    const lost = this.#pending.splice(0);
    for (const each of lost) {
      this.#world.met.add(`reply to ${replyName(each.request.kind, null)}`);
      if (each.request.kind === "uput" || this.#mustFollow(each, "")) {
        this.#sendAgain(each);
        continue;
      }
      this.#record(each, each.request.keys, "unknown", null);
      this.#askAgain();
    }
    this.#world.timer(PAUSE_MS, this.#process, () => this.#ask());
  }

  /** Whether a change must be followed, and is not. */
  #mustFollow({ request }: Pending, line: string): boolean {
    return this.#isStubborn && request.kind === "direct" && line !== "OK";
  }

  /** Asks the request that failed again, if it must succeed. */
  #askAgain(): void {
    if (!this.#isStubborn) return;
    this.#next--;
    this.start(PAUSE_MS);
  }

  // --- replies -------------------------------------------------------------------------------------

  #received(text: string): void {
    this.#text += text;
    while (this.#pending.length > 0 && this.#end !== null && this.#takeLine(this.#pending[0]!));
  }

  /** @returns Whether more may have been received. */
  #takeLine(pending: Pending): boolean {
    const end = this.#text.indexOf("\r\n");
    if (end < 0) return false;
    const line = this.#text.slice(0, end);
    let value = "";
    let next = end + 2;
    if (line.startsWith("VALUE ")) {
      const length = Number(line.split(" ")[3]);
      if (this.#text.length < next + length + 2) return false;
      value = this.#text.slice(next, next + length);
      next += length + 2;
    }
    this.#text = this.#text.slice(next);
    if (line.startsWith("VALUE ") || line.startsWith("NONE ")) {
      pending.lines.push([line, value]);
      return true;
    }
    this.#pending.shift();
    this.#watch();
    this.#answer(pending, line);
    return true;
  }

  #answer(pending: Pending, line: string): void {
    const { request } = pending;
    const { met } = this.#world;
    for (const [text] of pending.lines) met.add(`reply to ${replyName(request.kind, text)}`);
    met.add(`reply to ${replyName(request.kind, line)}`);
    this.#world.note(
      this.#plan.name,
      `got ${
        [...pending.lines.map(([, value]) => value), line].join(" ")
      } for ${request.kind} ${request.keys}`,
    );
    if (request.kind === "uput") {
      this.#putAnswer(pending, line);
      return this.#ask();
    }
    if (this.#mustFollow(pending, line)) {
      this.#sendAgain(pending);
      return this.#ask();
    }
    const isError = /ERROR/.test(line);
    if (isError) {
      const isUnknown = UNKNOWN.test(line) || request.kind === "direct";
      this.#record(pending, request.keys, isUnknown ? "unknown" : "failed", null);
      this.#askAgain();
      if (this.#isTired(pending)) this.#leave();
      return this.#ask();
    }
    this.answered++;
    if (line === END) this.#readAnswer(pending);
    else this.#writeAnswer(pending, line);
    this.#ask();
  }

  /** The reply to `token get`, or to `uput`: docs/client_protocol.md. */
  #putAnswer(pending: Pending, line: string): void {
    const [word, text = ""] = line.split(" ");
    if (word === "TOKEN" && pending.token === "") {
      pending.token = text;
      return this.#send(pending);
    }
    if (word !== "STORED" && word !== "NOT_FOUND" && word !== "REVOKED") {
      return this.#sendAgain(pending);
    }
    const isDone = word === "STORED";
    if (isDone) this.answered++;
    const version = isDone ? Number(text) : null;
    this.#record(pending, pending.request.keys, isDone ? "ok" : "failed", null, version);
  }

  /** The articles that views have shown. */
  #viewsAnswer(pending: Pending): void {
    const shown = new Map<string, Omit<Article, "id">>(pending.lines.flatMap(([, text]) => {
      const found: Article | readonly Article[] = JSON.parse(text);
      const articles = found instanceof Array ? found : [found];
      return articles.map(({ id, value, version }) => [`a${id}`, { value, version }] as const);
    }));
    const { kind } = pending.request;
    if (kind === "list" && pending.lines.length === 0) return;
    for (const key of kind === "list" ? this.#articles : pending.request.keys) {
      const { value = null, version = null } = shown.get(key) ?? {};
      this.#record(pending, [key], "ok", value, version);
    }
  }

  #readAnswer(pending: Pending): void {
    const { keys, kind } = pending.request;
    if (kind === "view" || kind === "list") return this.#viewsAnswer(pending);
    const left = new Set(keys);
    for (const [line, value] of pending.lines) {
      const [word, key = "", ...numbers] = line.split(" ");
      const isUget = pending.request.kind === "uget";
      const text = word === "NONE" ? numbers[0] : numbers[2];
      const version = text === undefined ? null : Number(text);
      if (version !== null && word === "VALUE") this.#versions.set(key, version);
      left.delete(key);
      this.#record(
        pending,
        [key],
        "ok",
        word === "NONE" ? null : value,
        isUget || word === "VALUE" ? version : null,
      );
    }
    this.#record(pending, [...left], "ok", null);
  }

  #writeAnswer(pending: Pending, line: string): void {
    const { request } = pending;
    if (request.kind === "direct") {
      return this.#record(pending, request.keys, line === "OK" ? "ok" : "unknown", null);
    }
    const isDone = line === "STORED" || line === "DELETED";
    this.#record(pending, request.keys, isDone ? "ok" : "failed", null);
    // It has seen that there is no row.
    if (request.kind === "delete" && line === "NOT_FOUND") {
      this.#record({ ...pending, request: { ...request, kind: "get" } }, request.keys, "ok", null);
    }
  }

  #record(
    { request, compared, start }: Pending,
    keys: readonly string[],
    outcome: Operation["outcome"],
    value: string | null,
    version: number | null = null,
  ): void {
    const { kind } = request;
    if (kind === "flush") return;
    const operation = kind === "getMany"
      ? "get"
      : kind === "view" || kind === "list"
      ? "view"
      : kind === "direct" || kind === "uput"
      ? "set"
      : kind;
    const isWrite = operation === "set" || operation === "add" || operation === "cas";
    const end = outcome === "unknown" ? null : this.#history.tick();
    for (const key of keys) {
      this.#history.add({
        client: this.#plan.name,
        operation,
        key,
        value: isWrite ? valueOf(request) : value,
        version,
        ...(kind === "cas" && { compared }),
        start,
        end,
        outcome,
      });
    }
  }
}

/** The value that a request writes: no other one writes it. */
function valueOf({ id }: Request): string {
  return `v${id}`;
}
