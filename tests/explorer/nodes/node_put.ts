import { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import { putRowFlow, type RowEnd } from "../../../lib/client/flows/put_row.ts";
import type { ClientFlow, Step, StepKind } from "../../../lib/client/flows/steps.ts";
import { LIMIT_MS, type RowFault, rowReply } from "../actors/row_putters.ts";
import { KEY } from "../key_record.ts";
import type { Table } from "../origins/table.ts";
import type { Core } from "./node_parts.ts";

/** The effect of a request: a word, and the id of the token that it was given. */
interface Reply {
  readonly word: string;
  readonly id?: number;
}

/** There was no reply, and the request may have been executed. */
const LOST: Reply = { word: "lost" };
const REFUSED: Reply = { word: "failed" };
const EDIT = { flags: 0, data: new Uint8Array() };

/** The part of the world that `putRow` at a node uses. */
export interface PutWorld {
  /** The origin that the node speaks to. */
  readonly origin: number | undefined;
  /** The parts of the origins; undefined: one does not serve. */
  readonly cores: readonly (Core | undefined)[];
  /** Executes a write at an origin; `answer` gets the word of its reply. */
  begin(
    origin: number,
    name: string,
    write: ReturnType<Core["flows"]["write"]>,
    answer: (word: string) => void,
  ): void;
  readonly mayLose: boolean;
  lose(text: string): void;
  note(text: string): void;
}

/** `putRow` of the client library: its real flow, whose requests a node forwards to its origin. */
export class NodePut {
  readonly name: string;
  readonly #fault: RowFault | undefined;
  readonly #flow: ClientFlow<unknown, RowEnd>;
  #step: Step<unknown> | undefined;
  /** The request: on its way, in execution, or its reply is on its way. */
  #state: "sent" | "executed" | "answered" = "sent";
  /** Whether a write that got no reply is on its way. */
  #isHeldUp = false;
  #reply: Reply = LOST;
  #tokenId = 0;
  #attempt = 0;
  /** All replies so far: the flow's state. */
  #history = "";
  #believed: RowEnd["outcome"] | undefined;

  constructor(name: string, fault: RowFault | undefined) {
    this.name = name;
    this.#fault = fault;
    this.#flow = putRowFlow(KEY, name, LIMIT_MS);
    this.#goOn(this.#flow.next());
  }

  /** Undefined: the flow has ended. */
  get request(): StepKind | undefined {
    return this.#step?.kind;
  }

  /** Returns the next events of the request, and of the write that is held up. */
  acts(world: PutWorld): (() => void)[] {
    const { origin, cores } = world;
    const acts: (() => void)[] = [];
    const add = (text: string, act: () => void): void => {
      acts.push(() => {
        world.note(`${this.request ?? "write"} of ${this.name} ${text}`);
        act();
      });
    };
    if (this.#isHeldUp) {
      for (const [index, core] of cores.entries()) {
        if (core !== undefined) add("arrives late", () => this.#arrive(index, core, world));
      }
    }
    if (this.request === undefined) return acts;
    if (this.#state === "answered") add("is answered", () => this.#understand(this.#reply));
    if (origin === undefined) {
      if (this.#state === "sent") {
        add("is refused: no origin", () => this.#understand(REFUSED));
      }
      return acts;
    }
    const core = cores[origin];
    if (core === undefined) {
      add("gets no reply: the origin is dead", () => this.#lose(false));
    } else if (this.#state === "sent") {
      add("is received", () => this.#execute(origin, core, world));
    }
    if (core !== undefined && world.mayLose) acts.push(...this.#losses(world));
    return acts;
  }

  /** The connection between node and origin breaks; a write may arrive all the same, later. */
  #losses(world: PutWorld): (() => void)[] {
    const mayArrive = this.request === "writeRow" && this.#state === "sent" && !this.#isHeldUp;
    return (mayArrive ? [false, true] : [false]).map((isHeldUp) => () => {
      const text = isHeldUp ? "is held up" : "gets no reply";
      world.lose(`${this.request} of ${this.name} ${text}: the connection breaks`);
      this.#lose(isHeldUp);
    });
  }

  /** The origin receives the request. */
  #execute(origin: number, core: Core, world: PutWorld): void {
    this.#state = "executed";
    const attempt = ++this.#attempt;
    const answer = (reply: Reply): void => {
      if (attempt !== this.#attempt) return;
      this.#reply = reply;
      this.#state = "answered";
    };
    if (core.flows.isDeposed) return answer(REFUSED);
    switch (this.request) {
      case "takeToken":
        return answer({ word: "token", id: core.states.get(KEY, this.name) });
      case "endToken":
        return answer({ word: core.states.release(KEY, this.#tokenId) });
      default:
        this.#write(origin, core, world, (word) => answer({ word }));
    }
  }

  /** A write that got no reply arrives. */
  #arrive(origin: number, core: Core, world: PutWorld): void {
    this.#isHeldUp = false;
    if (!core.flows.isDeposed) this.#write(origin, core, world, () => {});
  }

  #write(
    origin: number,
    { flows }: Core,
    world: PutWorld,
    answer: (word: string) => void,
  ): void {
    const write = new RowWrite({ key: KEY, edit: EDIT, writerTokenId: this.#tokenId });
    world.begin(origin, this.name, flows.write([write]), answer);
  }

  #lose(isHeldUp: boolean): void {
    this.#isHeldUp ||= isHeldUp;
    this.#attempt++;
    this.#understand(LOST);
  }

  #understand(reply: Reply): void {
    this.#history += `${reply.word},`;
    this.#state = "sent";
    const kind = this.request;
    if (kind === "endToken" && this.#fault === "keeps token") {
      return this.#goOn(this.#flow.next(true));
    }
    if (kind === "writeRow") return this.#goOn(this.#flow.next(rowReply(reply.word, this.#fault)));
    if (reply === LOST || reply === REFUSED) {
      try {
        return this.#goOn(this.#flow.throw(new Error(reply.word)));
      } catch {
        // No token: nothing was written.
        this.#step = undefined;
        return;
      }
    }
    this.#tokenId = reply.id ?? this.#tokenId;
    this.#goOn(this.#flow.next(kind === "takeToken" ? `${reply.id}` : reply.word === "released"));
  }

  #goOn(yielded: IteratorResult<Step<unknown>, RowEnd>): void {
    if (yielded.done) {
      this.#step = undefined;
      const { outcome } = yielded.value;
      this.#believed = outcome === "unknown" && this.#fault === "gives up" ? "failed" : outcome;
    } else if (yielded.value.kind === "sleep") {
      this.#goOn(this.#flow.next());
    } else {
      this.#step = yielded.value;
    }
  }

  /** Why what the client believes is wrong; undefined: it is right. */
  wrong(table: Table): string | undefined {
    if (this.#believed === undefined || this.#believed === "unknown") return undefined;
    const isApplied = table.outcome(this.#tokenId).kind === "committed";
    if (isApplied === (this.#believed === "done")) return undefined;
    return `${this.name} was told that its write is ${this.#believed}, and it is not`;
  }

  text(table: Table, cores: readonly (Core | undefined)[]): string {
    const ids = [this.#tokenId];
    const states = cores.map((core) => core?.states.text(ids, (id) => ids.indexOf(id)));
    return `${this.request}${this.#state}${this.#isHeldUp}${this.#reply.word}${this.#history}` +
      `${this.#believed}${states}${table.appliedText(ids, () => 0)}`;
  }
}
