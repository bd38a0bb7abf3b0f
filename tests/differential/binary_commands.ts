import {
  numberBytes,
  opcodeOf,
  type PacketFields,
  packetParts,
  packetText,
} from "../support/sessions/binary_text.ts";
import type { StoreOperation } from "../support/models/model.ts";
import { OperationSource, TIMELESS } from "../support/models/operations.ts";
import type { Part } from "../support/sessions/transcript.ts";
import { type Fence, LargeRequests, type RequestSource } from "./commands.ts";
import type { Difference } from "./differences.ts";

const ODD_SHARE = 0.15;
const QUIET_SHARE = 0.4;
/** Share of writes that name a cas id without needing one. */
const CAS_SHARE = 0.15;
const WRONG_ID = "1";

const RANGES = {
  valueLengthMax: 200_000,
  coldKeys: 300,
  exptimes: TIMELESS,
  flushDelaysSec: [0],
  numberBits: [1, 4, 8, 31, 32, 33, 48],
};

const MAKE_NOTHING = 0xffffffff;
const LONG_KEY = "k".repeat(251);
const TOO_LARGE = "x".repeat(1_048_600);

type Fields = Omit<PacketFields, "opcode">;
type Oddity = readonly [name: string, fields: Fields, ...meets: Difference[]];

const STORE_EXTRAS = extrasOf(7, 0);

/** Wrong or unusual requests, with the differences they meet. The connection survives them. */
const ODDITIES: readonly Oddity[] = [
  ["Noop", {}],
  ["Noop", { opaque: 0xffffffff, cas: "77", status: 3 }],
  ["Get", { key: "a key of words\r\n" }],
  ["Set", { key: "a key of words\r\n", extras: STORE_EXTRAS, value: "\r\n" }],
  ["GetK", { key: "\x00\xff" }],
  ["Set", { key: "\x00\xff", extras: STORE_EXTRAS }],
  ["GetKQ", { key: "k".repeat(250) }],
  ["Set", { key: "k".repeat(250), extras: STORE_EXTRAS, value: "longest" }],
  ["1b", {}],
  ["1f", {}],
  ["20", {}],
  ["20", { key: "hot0" }, "malformed SASL"],
  ["21", {}, "malformed SASL"],
  ["22", {}, "malformed SASL"],
  ["21", { key: "PLAIN", value: "\0a\0b" }],
  ["25", {}],
  ["30", {}],
  ["3d", {}],
  ["77", { opaque: 5, cas: "9" }],
  ["ff", {}],
  ["77", { key: "hot0" }, "unknown with a body"],
  ["30", { key: "hot0", extras: "\x01\x02", value: "v" }, "unknown with a body"],
  ["Stat", { key: "bogus" }],
  ["Stat", { key: "conns" }],
  ["Stat", { key: "reset" }],
  ["Stat", { key: "detail" }],
  ["Stat", { key: "detail x" }],
  ["Stat", { key: "detail off" }],
  ["Flush", { extras: numberBytes(0, 4) }],
  ["Set", { key: "hot0", extras: STORE_EXTRAS, value: TOO_LARGE }],
  ["SetQ", { key: "hot1", extras: STORE_EXTRAS, value: TOO_LARGE }],
  ["Add", { key: "hot1", extras: STORE_EXTRAS, value: TOO_LARGE }],
  ["ReplaceQ", { key: "hot1", extras: STORE_EXTRAS, value: TOO_LARGE }],
  ["Set", { key: "hot1", extras: STORE_EXTRAS, value: TOO_LARGE, cas: WRONG_ID }],
  ["Append", { key: "hot1", value: TOO_LARGE }],
  ["PrependQ", { key: "hot1", value: TOO_LARGE }],
];

/** Requests after which both servers close, with or without a reply. */
const CLOSERS: readonly Oddity[] = [
  ["Quit", { opaque: 8 }],
  ["QuitQ", {}],
  ["Get", { key: "hot0", extras: numberBytes(0, 4) }],
  ["Get", { key: "hot0", value: "x" }],
  ["GetQ", {}],
  ["GetKQ", { key: LONG_KEY }],
  ["Set", { key: "hot0", extras: numberBytes(0, 4), value: "x" }],
  ["SetQ", { extras: STORE_EXTRAS, value: "x" }],
  ["Add", { key: LONG_KEY, extras: STORE_EXTRAS, value: "x" }],
  ["Replace", { key: "hot0", value: "x" }],
  ["Append", { key: "hot0", extras: numberBytes(0, 8), value: "x" }],
  ["PrependQ", { value: "x" }],
  ["Delete", { key: "hot0", value: "x" }],
  ["DeleteQ", {}],
  ["Increment", { key: "number0" }],
  ["DecrementQ", { key: "number0", extras: numberBytes(0, 20), value: "1" }],
  ["Touch", { key: "hot0" }],
  ["GaTQ", { key: "hot0" }],
  ["GaTK", { extras: numberBytes(0, 4) }],
  ["Noop", { key: "hot0" }],
  ["Version", { key: "hot0" }],
  ["Version", { extras: "\0" }],
  ["Flush", { extras: "\0\0\0" }],
  ["FlushQ", { key: "hot0" }],
  ["Quit", { key: "hot0" }],
  ["Stat", { extras: "\0", key: "reset" }],
  // memcached looks at these lengths only when as many bytes have come.
  ["Get", { key: "hot0", value: "x", keyLength: 5, bodyLength: 1 }],
  ["Get", { key: "hot0", value: "x".repeat(9), extrasLength: 9, bodyLength: 4 }],
  ["Noop", { magic: 0x81 }],
  ["Set", { key: "hot0", extras: STORE_EXTRAS, bodyLength: 0x40000001 }, "endless body"],
];

/** The fence of a binary connection. */
export function binaryFence(number: number): Fence {
  const [request, reply] = [0x80, 0x81].map((magic) =>
    packetText({ magic, opcode: opcodeOf("Noop"), opaque: number })
  );
  return { request: request!, reply: reply! };
}

/** Draws commands of the binary protocol. */
export class BinaryCommandSource implements RequestSource {
  readonly operations: OperationSource;
  readonly #oddities: readonly Oddity[];
  readonly #closers: readonly Oddity[];
  readonly #ids: string[] = [];
  readonly #large = new LargeRequests();

  constructor(seed: number, without: ReadonlySet<Difference>) {
    this.operations = new OperationSource(seed, RANGES);
    const isEqual = ([, , ...meets]: Oddity): boolean => !meets.some((name) => without.has(name));
    this.#oddities = ODDITIES.filter(isEqual);
    this.#closers = CLOSERS.filter(isEqual);
  }

  learned(name: string): void {
    this.#ids.push(name);
    this.operations.learned(name);
  }

  fence(number: number): Fence {
    return binaryFence(number);
  }

  closer(): readonly Part[] {
    return this.#oddity(this.#closers);
  }

  next(): readonly Part[] {
    const { operations } = this;
    if (operations.random() < ODD_SHARE) return this.#odd();
    const operation = operations.next();
    switch (operation.name) {
      case "get":
      case "gets":
        return operation.keys.flatMap((key) => this.#packet(this.#withKey("Get"), { key }));
      case "gat":
      case "gats": {
        const extras = exptimeOf(operation.exptime);
        return operation.keys.flatMap((key) => this.#packet(this.#withKey("GaT"), { key, extras }));
      }
      case "touch": {
        const { key, exptime } = operation;
        return packetParts({
          opcode: opcodeOf("Touch"),
          opaque: this.#opaque(),
          key,
          extras: exptimeOf(exptime),
        });
      }
      case "delete":
        return this.#packet("Delete", { key: operation.key, cas: this.#cas() });
      case "incr":
      case "decr": {
        const { key, delta } = operation;
        const initial = operations.integer(0, 100_000);
        const exptime = operations.pick([0, 0, 1000, 2592001, MAKE_NOTHING]);
        const extras = numberBytes(delta, 8) + numberBytes(initial, 8) + exptimeOf(exptime);
        const name = operation.name === "incr" ? "Increment" : "Decrement";
        return this.#packet(name, { key, extras, cas: this.#cas() });
      }
      case "flush_all":
        return this.#packet("Flush", {});
      default:
        // No locks are drawn here.
        return "value" in operation ? this.#store(operation) : [];
    }
  }

  #store({ name, key, flags, exptime, value, id }: StoreOperation): Part[] {
    if (name === "append" || name === "prepend") {
      const command = name === "append" ? "Append" : "Prepend";
      return this.#packet(command, { key, value, cas: this.#cas() });
    }
    const extras = extrasOf(flags, exptime);
    if (id !== undefined) {
      const command = this.operations.pick(["Set", "Set", "Add", "Replace"]);
      return this.#packet(command, { key, extras, value, cas: { hole: id } });
    }
    const command = name === "add" ? "Add" : name === "replace" ? "Replace" : "Set";
    return this.#packet(command, { key, extras, value, cas: this.#cas() });
  }

  #odd(): readonly Part[] {
    const oddity = this.operations.pick(this.#oddities);
    if (this.#large.skips((oddity[1].value ?? "").length)) return this.next();
    return this.#oddity([oddity]);
  }

  #oddity(choices: readonly Oddity[]): Part[] {
    const [name, fields] = this.operations.pick(choices);
    return packetParts({ opaque: this.#opaque(), ...fields, opcode: opcodeOf(name) });
  }

  /** A request, quiet or not. */
  #packet(name: string, fields: Fields): Part[] {
    const quiet = this.operations.random() < QUIET_SHARE ? "Q" : "";
    return packetParts({ opaque: this.#opaque(), ...fields, opcode: opcodeOf(name + quiet) });
  }

  #withKey(name: string): string {
    return this.operations.random() < 0.5 ? name : `${name}K`;
  }

  #opaque(): number {
    return this.operations.integer(0, 2 ** 32);
  }

  /** Mostly none. */
  #cas(): string | { hole: string } {
    const { operations } = this;
    if (operations.random() >= CAS_SHARE) return "";
    if (this.#ids.length === 0 || operations.random() < 0.3) return WRONG_ID;
    return { hole: operations.pick(this.#ids.slice(-5)) };
  }
}

/** Seconds as four bytes: -1 is their largest number. */
function exptimeOf(exptime: number): string {
  return numberBytes(exptime >>> 0, 4);
}

function extrasOf(flags: number, exptime: number): string {
  return numberBytes(flags, 4) + exptimeOf(exptime);
}
