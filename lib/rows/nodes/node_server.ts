import { assert } from "../../../store/base/assert.ts";
import { REPLY } from "../../../protocol/reply/replies.ts";
import { concatBytes, latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import type { TransportEvent } from "../../net/transport.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import type { Read } from "../flows/flows.ts";
import { RowWrite, type WriteReply } from "../flows/row_write.ts";
import type { RowDeletion } from "../flows/steps.ts";
import type { Deletion, NodeChange, NodeList, NodeState } from "../flows/node_list.ts";
import { NodeWaits } from "../flows/node_waits.ts";
import { NodeService, type OriginRight, type ServiceFlow } from "../flows/node_service.ts";
import { runFlow } from "../../flow/flow.ts";
import { inSlices } from "../key_slices.ts";
import type { OwnRows } from "../own_rows.ts";
import { RowEdit } from "../flows/row_edit.ts";
import * as wire from "./wire.ts";

/** Polls of an idle node per membership. */
const POLLS_PER_MEMBERSHIP = 4;
/** The longest wait of a poll: a node takes an origin that is silent for longer for one that has gone. */
const WAIT_MS_MAX = 500;
const SESSION_OVER = REPLY.NOT_FOUND.slice();
const NAME = /^[\x21-\x7e]{1,255}$/;

/** The part of its origin that the server of nodes uses. */
export interface NodeServerContext {
  /** The origin's own right to serve rows. */
  readonly right: OriginRight;
  /** The origin's own cache: it deletes first, and is always there. */
  readonly own: Pick<OwnRows, "invalidate" | "expel">;
  readonly memberMs: number;
  /** The keys that are rows, and how expiry times are treated: a node must have the same. */
  readonly prefixes: readonly string[];
  readonly expiry: string;
  fits(keyLength: number, valueLength: number, flags: number): boolean;
  read(keys: readonly string[], isReadable: boolean): Promise<readonly Read[]>;
  /** `Backend.noteNodes`: the database must know that there are nodes before the first one may serve. */
  noteNodes(servesMs: number): Promise<boolean>;
  report(event: TransportEvent): void;
}

interface Waiting {
  readonly deletion: Deletion;
  readonly resolve: () => void;
}

/** The origin's side of nodes: answers their commands, and has writes wait until nodes have deleted their keys. */
export class NodeServer {
  readonly #nodes: NodeList;
  readonly #context: NodeServerContext;
  readonly #service: NodeService;
  /** Nodes that may not join yet. */
  readonly #waits: NodeWaits;
  #waiting: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** By session: ends the wait of its request for keys to delete. */
  readonly #polls = new Map<string, () => void>();
  /** Stands for the connection of each block of writes: those of one block take effect in their order. */
  #order = 0;

  constructor(nodes: NodeList, context: NodeServerContext) {
    this.#nodes = nodes;
    this.#context = context;
    this.#service = new NodeService(nodes, context.right);
    this.#waits = new NodeWaits(context.memberMs);
    nodes.delayed = (name, nowMs) => this.#waits.add(name, nowMs);
    nodes.tell = (change) =>
      context.report(eventOf(change, this.#waits.leftMs(change.name, this.#nowMs)));
  }

  get #nowMs(): number {
    return this.#context.right.nowMs();
  }

  get states(): readonly NodeState[] {
    return [...this.#nodes.states(this.#nowMs)];
  }

  /** Whether a node may serve rows now. */
  get hasMembers(): boolean {
    return this.#nodes.mayServe(this.#nowMs);
  }

  /** Reports nodes whose time is over. Call it now and then. */
  watch(): void {
    this.#nodes.watch(this.#nowMs);
  }

  /** Forgets a node that serves no row: it may join at once. @returns False for an unknown node, and for a member. */
  forget(name: string): boolean {
    const isForgotten = this.#nodes.forget(name, this.#nowMs);
    return this.#waits.forget(name) || isForgotten;
  }

  /** Deletes rows here and in all nodes: see the step `delete`. */
  delete(rows: RowDeletion): readonly boolean[] | Promise<readonly boolean[]> {
    const { keys, prefixes, writers } = rows;
    const { own } = this.#context;
    const here = writers === undefined ? own.expel(rows) : undefined;
    const freed = writers === undefined ? keys.map(() => true) : own.invalidate(keys, writers);
    const freedKeys = freed.every(Boolean) ? keys : keys.filter((_, index) => freed[index]);
    const there = this.#deleteInNodes({ keys: freedKeys, prefixes });
    if (here === undefined && there === undefined) return freed;
    return Promise.all([here, there]).then(() => freed);
  }

  /** @returns What waits until each node has confirmed it, or serves no row any more; undefined: nothing does. */
  #deleteInNodes(rows: KeySet): Promise<void> | undefined {
    const deletion = this.#nodes.delete(rows, this.#nowMs);
    if (this.#nodes.isDone(deletion, this.#nowMs)) return undefined;
    for (const wake of this.#polls.values()) wake();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ deletion, resolve });
    this.#settle();
    return promise;
  }

  /** Lets writes go on whose deletions are done; sets the timer for the others. */
  #settle(): void {
    const nowMs = this.#nowMs;
    clearTimeout(this.#timer);
    this.#waiting = this.#waiting.filter(({ deletion, resolve }) => {
      const isDone = this.#nodes.isDone(deletion, nowMs);
      if (isDone) resolve();
      return !isDone;
    });
    if (this.#waiting.length === 0) return;
    assert(
      this.#waiting.every(({ deletion }) => deletion.missing.size > 0),
      "a write waits for nodes that have not confirmed it",
    );
    const endMs = Math.min(...this.#waiting.map(({ deletion }) => this.#nodes.endMs(deletion)));
    this.#timer = setTimeout(() => this.#settle(), Math.max(1, endMs - nowMs));
  }

  /** Ends the requests of nodes that wait. */
  stop(): void {
    this.#service.stop();
    for (const wake of this.#polls.values()) wake();
  }

  /**
   * `node join|poll|leave|read|write <session> <number> <bytes>`, and a block.
   *
   * @param signal Ends a read between two of its slices.
   * @throws WireError; RangeError; why the node is refused; the database's error.
   */
  async execute(
    [verb, session = "", number = "", ...more]: readonly string[],
    block: Uint8Array,
    addWrite: (write: RowWrite) => void,
    signal?: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    if (more.length !== 1) throw new Error("bad command line format");
    const confirmed = wire.wholeNumber(number, "the number of a deletion");
    switch (verb) {
      case "join":
        return await this.#join(latin1Text(block));
      case "poll":
        return await this.#poll(session, confirmed);
      case "leave":
        return this.#leave(session);
      case "read":
        return await this.#read(session, wire.unpackKeys(block), signal);
      case "write":
        return await this.#write(wire.unpackWrites(block), addWrite);
      default:
        throw new Error("unknown request of a node");
    }
  }

  async #join(text: string): Promise<Uint8Array<ArrayBuffer>> {
    const asked = readJoin(text);
    this.#check(asked);
    this.#checkWait(asked);
    const joined = await this.#run(this.#service.join(asked.name, asked.session));
    // Ends the poll of the old session, which is over.
    this.#polls.get(asked.session)?.();
    const { memberMs } = this.#context;
    return replyOf(new TextEncoder().encode(JSON.stringify({ ...joined, memberMs })));
  }

  /**
   * Checks that a node may join now. A wait is one of a name: a node of that name which still has a session, and delays
   * no write, need not wait.
   *
   * @throws Error with WAIT_TEXT.
   */
  #checkWait({ name, session }: wire.Join): void {
    const nowMs = this.#nowMs;
    if (this.#waits.leftMs(name, nowMs) === 0 || this.#nodes.isPrompt(session, nowMs)) return;
    throw new Error(wire.WAIT_TEXT);
  }

  /** Runs a flow. Its changes of nodes may let writes continue. @throws The flow's error; the database's. */
  async #run<Result>(flow: ServiceFlow<Result>): Promise<Result> {
    const result = await runFlow(flow, (step) => {
      this.#settle();
      return step.kind === "noteNodes"
        ? this.#context.noteNodes(this.#context.memberMs)
        : this.#wait(step.session);
    });
    this.#settle();
    return result;
  }

  /** A node with other options than its origin would take other keys for rows. */
  #check({ version, prefixes, expiry }: wire.Join): void {
    const { prefixes: own, expiry: ownExpiry } = this.#context;
    if (version !== wire.WIRE_VERSION) {
      throw new Error(
        `the node speaks version ${version}, and this origin version ${wire.WIRE_VERSION}`,
      );
    }
    checkEqual("--rows", shownPrefixes(prefixes), shownPrefixes(own));
    checkEqual("--row-expiry", expiry, ownExpiry);
  }

  async #poll(session: string, confirmed: number): Promise<Uint8Array<ArrayBuffer>> {
    const due = await this.#run(this.#service.poll(session, confirmed));
    return due === null ? SESSION_OVER : replyOf(wire.packDue(due));
  }

  /** Waits until the node must delete something, or must renew its right. */
  async #wait(session: string): Promise<void> {
    // A request of the same node before: its connection is gone.
    this.#polls.get(session)?.();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#polls.set(session, resolve);
    const timer = setTimeout(
      resolve,
      Math.min(this.#context.memberMs / POLLS_PER_MEMBERSHIP, WAIT_MS_MAX),
    );
    await promise;
    clearTimeout(timer);
    if (this.#polls.get(session) === resolve) this.#polls.delete(session);
  }

  #leave(session: string): Uint8Array<ArrayBuffer> {
    this.#nodes.leave(session, this.#nowMs);
    this.#polls.get(session)?.();
    this.#settle();
    return replyOf(new Uint8Array());
  }

  async #read(
    session: string,
    keys: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array<ArrayBuffer>> {
    if (keys.length === 0) return replyOf(new Uint8Array());
    const read = (some: readonly string[]): Promise<readonly Read[]> => {
      signal?.throwIfAborted();
      return this.#context.read(some, this.#nodes.isReadable(session));
    };
    const reads: Read[] = [];
    let bytes = 0;
    for await (const slice of inSlices(keys, read)) {
      reads.push(...slice.reads);
      for (const { row } of slice.reads) bytes += row?.data.length ?? 0;
      // The block has no room for more.
      if (bytes > wire.BLOCK_BYTES) break;
    }
    this.#nodes.countFetched(session, reads.length);
    return replyOf(wire.packReads(reads, keys.length));
  }

  async #write(
    writes: readonly wire.SentWrite[],
    addWrite: (write: RowWrite) => void,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const connection = -(++this.#order);
    const sinceMs = performance.now();
    const replies = await Promise.all(writes.map(({ request, data }) => {
      const { key } = request;
      const work = new RowEdit(
        request,
        data,
        (valueLength) => this.#context.fits(key.length, valueLength, request.flags),
      );
      return new Promise<wire.SentReply>((resolve) => {
        const answer = (reply: WriteReply): void => {
          const row = reply.kind === "committed" ? work.row : null;
          resolve({ reply, outcome: work.outcome, number: work.number, row });
        };
        const { edit } = work;
        addWrite(new RowWrite({ key, edit, connection, bytes: data.length, sinceMs, answer }));
      });
    }));
    return replyOf(wire.packReplies(replies));
  }
}

function replyOf(block: Uint8Array): Uint8Array<ArrayBuffer> {
  return concatBytes([latin1Bytes(`NODE ${block.length}\r\n`), block]);
}

/** @throws When it is malformed. */
function readJoin(text: string): wire.Join {
  try {
    const { version, name, session, prefixes, expiry } = JSON.parse(text) as Partial<wire.Join>;
    if (
      typeof version === "number" && NAME.test(String(name)) && typeof session === "string" &&
      Array.isArray(prefixes) && typeof expiry === "string"
    ) {
      return { version, name: String(name), session, prefixes: prefixes.map(String), expiry };
    }
  } catch {
    // It is no JSON.
  }
  throw new Error("malformed request of a node");
}

/** Returns a change of the nodes as the log has it. @param waitMs How long the node must wait before it joins again. */
function eventOf({ name, kind, ageMs }: NodeChange, waitMs: number): TransportEvent {
  const age = `${Math.round(ageMs)} ms`;
  const wait = waitMs === 0 ? "" : `, in ${Math.ceil(waitMs)} ms at the earliest`;
  const reason = kind === "joined" || kind === "left" ? "" : `no renewal for ${age}`;
  const message = {
    joined: `node ${name} is a member`,
    returned: `node ${name} is a member again, after ${age}`,
    silent: `node ${name} is silent: ${reason}; the next write continues without it`,
    lost:
      `node ${name} is lost: ${reason}; a write went on without it, and it must join again${wait}`,
    left: `node ${name} has ended`,
  }[kind];
  const level = kind === "silent" || kind === "lost" ? "warning" : "info";
  return { level, event: `node_${kind}`, message, fields: { node: name, reason } };
}

/** As `nodes` shows nodes. */
export function nodeLines(states: readonly NodeState[]): string {
  return states.map(({ name, state, ageMs, fetched }) =>
    `NODE ${name} ${state} ${Math.round(ageMs)} ${fetched}\r\n`
  ).join("");
}

function shownPrefixes(prefixes: readonly string[]): string {
  return [...prefixes].sort().map((prefix) => prefix === "" ? "all keys" : prefix).join(", ");
}

/** @throws Error that shows both. */
function checkEqual(option: string, ofNode: string, ofOrigin: string): void {
  if (ofNode === ofOrigin) return;
  throw new Error(
    `${option} of the node: ${ofNode}; of this origin: ${ofOrigin}; they must be equal`,
  );
}
