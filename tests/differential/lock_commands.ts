import {
  numberBytes,
  opcodeOf,
  type PacketFields,
  packetParts,
} from "../support/sessions/binary_text.ts";
import { type OperationRanges, OperationSource } from "../support/models/operations.ts";
import type { Part } from "../support/sessions/transcript.ts";
import { binaryFence } from "./binary_commands.ts";
import { type Fence, type RequestSource, textFence } from "./commands.ts";
import type { YrmcdsDifference } from "./differences.ts";

/** Only the dice are used. */
const RANGES: OperationRanges = {
  valueLengthMax: 0,
  coldKeys: 0,
  exptimes: [0],
  flushDelaysSec: [0],
  numberBits: [1],
};

/** Few, so that connections meet. */
const KEYS = ["a0", "a1", "a2", "a3", "b0", "b1"];
const NUMBERS = ["n0", "n1"];
const NEVER_STORED = "never";
const PREFIXES = ["", "a", "b", "n0", "x"];
const EXPTIMES = [0, 1000, 5000];
/** Far enough from a power of ten that no number changes its length during a run. */
const NUMBER = 5_000_000_000;
const DELTA_MAX = 1000;
/** No item here or there has it. */
const WRONG_ID = "999999999999999";
const MAKE_NOTHING = 0xffffffff;

const NOREPLY_SHARE = 0.15;
const QUIET_SHARE = 0.3;
const ODD_SHARE = 0.1;
/** Share of connections that the client closes without quit. */
const SILENT_END_SHARE = 0.5;

interface TextOddity {
  readonly request: string;
  readonly meets?: YrmcdsDifference;
}

/** Wrong or unusual lines. A line that meets a difference is not sent; it is listed to name the difference. */
const TEXT_ODDITIES: readonly TextOddity[] = [
  { request: "lock\r\n" },
  { request: "lock a0 a1\r\n" },
  { request: "lock a0 noreply\r\n" },
  { request: "LOCK a0\r\n" },
  { request: "unlock\r\n" },
  { request: "unlock a0 noreply\r\n" },
  { request: "unlock_all and more\r\n" },
  { request: "lock list\r\n" },
  { request: "unlock list\r\n" },
  { request: "keys a b\r\n" },
  { request: "bogus\r\n" },
  { request: "get\r\n", meets: "refused lines" },
  { request: "set a0 x 0 1\r\n1\r\n", meets: "refused lines" },
  { request: "delete\r\n", meets: "refused lines" },
  { request: "incr n0 x\r\n", meets: "C numbers" },
  { request: "touch a0 -1\r\n", meets: "C numbers" },
  { request: "lock a0 10\r\n", meets: "waits and fencing numbers" },
  { request: "lock a0 fence\r\n", meets: "waits and fencing numbers" },
  { request: `lock ${"k".repeat(251)}\r\n`, meets: "long keys" },
  { request: "flush_all\r\n", meets: "flush" },
  { request: "gat 0 a0\r\n", meets: "commands of memcached" },
  { request: "set n0 0 0 2\r\n10\r\ndecr n0 1\r\nget n0\r\n", meets: "padded numbers" },
];

type Fields = Omit<PacketFields, "opcode">;
interface BinaryOddity {
  readonly name: string;
  readonly fields: Fields;
  readonly meets?: YrmcdsDifference;
}

const STORE_EXTRAS = numberBytes(0, 8);

const BINARY_ODDITIES: readonly BinaryOddity[] = [
  { name: "Noop", fields: {} },
  { name: "Lock", fields: {} },
  { name: "LockQ", fields: { key: "a0", value: "1" } },
  { name: "Lock", fields: { key: "a0", extras: numberBytes(0, 4) } },
  { name: "Lock", fields: { key: "k".repeat(251) } },
  { name: "Unlock", fields: {} },
  { name: "UnlockQ", fields: { key: "a0", extras: "\0" } },
  { name: "Unlock", fields: { key: "a0", value: "1" } },
  { name: "UnlockAll", fields: { opaque: 5 } },
  { name: "LaG", fields: {} },
  { name: "LaGQ", fields: { key: "a0", extras: "\0\0" } },
  { name: "LaGK", fields: { key: "a0", value: "1" } },
  { name: "LaGKQ", fields: { key: "a0", extras: numberBytes(0, 8) } },
  { name: "RaU", fields: { key: "a0", value: "1" } },
  { name: "RaU", fields: { key: "a0", extras: STORE_EXTRAS } },
  { name: "RaUQ", fields: { extras: STORE_EXTRAS, value: "1" } },
  { name: "RaU", fields: { key: "a0", extras: numberBytes(0, 4), value: "1" } },
  { name: "RaU", fields: { key: "a0", extras: STORE_EXTRAS, value: "x".repeat(1_048_600) } },
  { name: "Keys", fields: { key: "a", extras: "\0" } },
  { name: "Keys", fields: { key: "a", value: "1" } },
  {
    name: "Add",
    fields: { key: "a0", extras: STORE_EXTRAS, value: "1", cas: WRONG_ID },
    meets: "Add with an id",
  },
  { name: "UnlockAll", fields: { key: "a0" }, meets: "UnlockAll with a key" },
  { name: "LaGKQ", fields: { key: NEVER_STORED }, meets: "silent LaGKQ" },
  { name: "Set", fields: { key: "a0", extras: STORE_EXTRAS }, meets: "empty values" },
  {
    name: "Set",
    fields: { key: "a0", extras: STORE_EXTRAS, value: "x".repeat(1_048_600) },
    meets: "too large",
  },
  { name: "Get", fields: { key: "a0", extras: numberBytes(0, 4) }, meets: "refused requests" },
  { name: "Get", fields: {}, meets: "refused requests" },
  { name: "77", fields: {}, meets: "unknown opcodes" },
  { name: "Version", fields: {}, meets: "versions" },
  { name: "Stat", fields: {}, meets: "statistics" },
  { name: "Flush", fields: {}, meets: "flush" },
];

/** Random choices that sources of both protocols share. The same seed and learned ids draw the same. */
export class LockDice {
  readonly operations: OperationSource;
  /**
   * Keys whose newest id that was seen is, or was, of the item that has the key now. There ids
   * count anew for every item, so an id of an earlier one might fit.
   */
  readonly #withId = new Set<string>();
  /** In which batch the item last went. */
  readonly #deletedIn = new Map<string, number>();
  #batch = 0;

  constructor(seed: number) {
    this.operations = new OperationSource(seed, RANGES);
  }

  chance(share: number): boolean {
    return this.operations.random() < share;
  }

  key(): string {
    if (this.chance(0.05)) return NEVER_STORED;
    return this.operations.pick(this.chance(0.2) ? NUMBERS : KEYS);
  }

  /** A key, and a value for it. */
  pair(): { key: string; value: string } {
    const { operations } = this;
    if (this.chance(0.2)) return { key: operations.pick(NUMBERS), value: String(NUMBER) };
    return { key: operations.pick(KEYS), value: this.piece() };
  }

  piece(): string {
    const { operations } = this;
    const length = this.chance(0.03) ? 20_000 : operations.integer(1, 60);
    const line = `v${operations.integer(0, 1e6)}\r\n`;
    return line.repeat(Math.ceil(length / line.length)).slice(0, length);
  }

  /** An id that is the item's, or was, or is no item's. */
  id(key: string): string | { hole: string } {
    return this.#withId.has(key) && !this.chance(0.2) ? { hole: holeOf(key) } : WRONG_ID;
  }

  delete(key: string): void {
    this.#withId.delete(key);
    this.#deletedIn.set(key, this.#batch);
  }

  endBatch(): void {
    this.#batch++;
  }

  /** Ids are learned when the batch that asked for them has ended. */
  learned(name: string): void {
    const key = keyOf(name);
    if ((this.#deletedIn.get(key) ?? -1) < this.#batch - 1) this.#withId.add(key);
  }
}

/** Draws requests of one connection from shared dice. */
abstract class LockSource implements RequestSource {
  readonly operations: OperationSource;
  protected readonly dice: LockDice;

  constructor(dice: LockDice) {
    this.operations = dice.operations;
    this.dice = dice;
  }

  abstract next(): readonly Part[];
  abstract learned(name: string): void;
  abstract fence(number: number): Fence;
  abstract closer(): readonly Part[];
}

/** Draws lock commands and writes that locks refuse, as text. */
export class TextLockSource extends LockSource {
  /** The dice have learned it already. */
  override learned(): void {}

  override fence(number: number): Fence {
    this.dice.endBatch();
    return textFence(number);
  }

  override closer(): readonly Part[] {
    return this.dice.chance(SILENT_END_SHARE) ? [] : ["quit\r\n"];
  }

  override next(): readonly Part[] {
    const { operations } = this;
    const dice = this.dice;
    if (dice.chance(ODD_SHARE)) return [playable(operations, TEXT_ODDITIES).request];
    const key = dice.key();
    const noreply = dice.chance(NOREPLY_SHARE) ? " noreply" : "";
    switch (operations.integer(0, 16)) {
      case 0:
      case 1:
      case 2:
        return [`lock ${key}\r\n`];
      case 3:
      case 4:
        return [`unlock ${key}\r\n`];
      case 5:
        return [dice.chance(0.3) ? "unlock_all\r\n" : `get ${key} ${dice.key()}\r\n`];
      case 6:
        return [`gets ${key} ${dice.key()}\r\n`];
      case 7:
        return [`keys ${operations.pick(PREFIXES)}\r\n`];
      case 8:
        dice.delete(key);
        return [`delete ${key}${noreply}\r\n`];
      case 9:
        return [`touch ${key} ${operations.pick(EXPTIMES)}${noreply}\r\n`];
      case 10:
        return [`${this.#arithmetic()} ${operations.integer(0, DELTA_MAX)}${noreply}\r\n`];
      case 11:
        return this.#extend(noreply);
      case 12:
        return this.#store("cas", noreply);
      default:
        return this.#store(operations.pick(["set", "set", "add", "replace"]), noreply);
    }
  }

  #arithmetic(): string {
    const { operations } = this;
    const key = this.dice.chance(0.1) ? this.dice.key() : operations.pick(NUMBERS);
    return `${operations.pick(["incr", "decr"])} ${key}`;
  }

  #extend(noreply: string): Part[] {
    const { operations } = this;
    const key = operations.pick([...KEYS, NEVER_STORED]);
    const piece = this.dice.piece();
    const name = operations.pick(["append", "prepend"]);
    return [`${name} ${key} 0 0 ${piece.length}${noreply}\r\n${piece}\r\n`];
  }

  #store(name: string, noreply: string): Part[] {
    const { operations } = this;
    const { key, value } = this.dice.pair();
    const numbers = `${operations.integer(0, 3)} ${operations.pick(EXPTIMES)} ${value.length}`;
    const id = name === "cas" ? [" ", this.dice.id(key)] : [];
    return [`${name} ${key} ${numbers}`, ...id, `${noreply}\r\n${value}\r\n`];
  }
}

/** Draws lock commands and writes that locks refuse, in the binary protocol. */
export class BinaryLockSource extends LockSource {
  override learned(name: string): void {
    this.dice.learned(name);
  }

  override fence(number: number): Fence {
    this.dice.endBatch();
    return binaryFence(number);
  }

  override closer(): readonly Part[] {
    if (this.dice.chance(SILENT_END_SHARE)) return [];
    return packetParts({ opcode: opcodeOf(this.operations.pick(["Quit", "QuitQ"])) });
  }

  override next(): readonly Part[] {
    const { operations } = this;
    const dice = this.dice;
    if (dice.chance(ODD_SHARE)) {
      const { name, fields } = playable(operations, BINARY_ODDITIES);
      return packetParts({ ...fields, opcode: opcodeOf(name) });
    }
    const key = dice.key();
    switch (operations.integer(0, 20)) {
      case 0:
      case 1:
        return this.#packet("Lock", { key });
      case 2:
      case 3:
        return this.#packet("Unlock", { key });
      case 4:
        return dice.chance(0.3) ? this.#packet("UnlockAll", {}) : this.#packet("Get", { key });
      case 5:
      case 6:
        return this.#lockAndGet(key);
      case 7:
      case 8:
        return this.#store("RaU", dice.chance(0.2));
      case 9:
        return this.#packet("GetK", { key });
      case 10: {
        const name = operations.pick(["GaT", "GaTK"]);
        return this.#packet(name, { key, extras: this.#exptime() });
      }
      case 11:
        return this.#loud("Touch", { key, extras: this.#exptime() });
      case 12:
        return this.#loud("Keys", { key: operations.pick(PREFIXES) });
      case 13:
        dice.delete(key);
        return this.#packet("Delete", { key, cas: dice.chance(0.2) ? dice.id(key) : "" });
      case 14:
        return this.#arithmetic();
      case 15: {
        const name = operations.pick(["Append", "Prepend"]);
        const plain = operations.pick([...KEYS, NEVER_STORED]);
        const cas = dice.chance(0.2) ? dice.id(plain) : "";
        return this.#packet(name, { key: plain, value: dice.piece(), cas });
      }
      default:
        return dice.chance(0.25)
          ? this.#store("Add", false)
          : this.#store(operations.pick(["Set", "Set", "Replace"]), dice.chance(0.2));
    }
  }

  #lockAndGet(key: string): Part[] {
    const extras = this.dice.chance(0.3) ? this.#exptime() : "";
    const name = this.operations.pick(["LaG", "LaGQ", "LaGK"]);
    if (this.dice.chance(0.8) || key === NEVER_STORED) return this.#loud(name, { key, extras });
    // LaGKQ is told apart from yrmcds's by a miss: here is none.
    const value = NUMBERS.includes(key) ? String(NUMBER) : this.dice.piece();
    return [
      ...this.#loud("SetQ", { key, extras: STORE_EXTRAS, value }),
      ...this.#loud("LaGKQ", { key, extras }),
    ];
  }

  #arithmetic(): Part[] {
    const { operations } = this;
    const dice = this.dice;
    const key = dice.chance(0.1) ? dice.key() : operations.pick(NUMBERS);
    const exptime = !NUMBERS.includes(key) || dice.chance(0.3) ? MAKE_NOTHING : 0;
    const extras = numberBytes(operations.integer(0, DELTA_MAX), 8) + numberBytes(NUMBER, 8) +
      numberBytes(exptime, 4);
    const cas = dice.chance(0.2) ? dice.id(key) : "";
    return this.#packet(operations.pick(["Increment", "Decrement"]), { key, extras, cas });
  }

  #store(name: string, withId: boolean): Part[] {
    const { key, value } = this.dice.pair();
    const extras = numberBytes(this.operations.integer(0, 3), 4) + this.#exptime();
    return this.#packet(name, { key, extras, value, cas: withId ? this.dice.id(key) : "" });
  }

  #exptime(): string {
    return numberBytes(this.operations.pick(EXPTIMES), 4);
  }

  /** A request, quiet or not. */
  #packet(name: string, fields: Fields): Part[] {
    return this.#loud(this.dice.chance(QUIET_SHARE) ? `${name}Q` : name, fields);
  }

  #loud(name: string, fields: Fields): Part[] {
    const opaque = this.operations.integer(0, 2 ** 32);
    return packetParts({ opaque, ...fields, opcode: opcodeOf(name) });
  }
}

/** One of those that meet no difference. */
function playable<T extends { readonly meets?: YrmcdsDifference }>(
  operations: OperationSource,
  oddities: readonly T[],
): T {
  return operations.pick(oddities.filter(({ meets }) => meets === undefined));
}

/** The newest id of a key that was seen. */
export function holeOf(key: string): string {
  return `of ${key}`;
}

function keyOf(hole: string): string {
  return hole.slice("of ".length);
}
