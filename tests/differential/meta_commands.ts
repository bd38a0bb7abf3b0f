import { LINE_LENGTH_MAX } from "../../store/limits.ts";
import { OperationSource } from "../support/models/operations.ts";
import type { Part } from "../support/sessions/transcript.ts";
import { CommandSource, type Fence, type RequestSource, textFence } from "./commands.ts";
import type { Difference } from "./differences.ts";

/** Shares of classic requests, on other keys and on the same. */
const CLASSIC_SHARE = 0.1;
const NEIGHBOUR_SHARE = 0.25;
const ODD_SHARE = 0.1;
const BASE64_SHARE = 0.15;

const RANGES = {
  valueLengthMax: 20_000,
  coldKeys: 50,
  exptimes: [0, 1000],
  flushDelaysSec: [0],
  numberBits: [1, 8, 31, 33],
};

const KEYS = ["m0", "m1", "m2", "m3", "m4:with a longer name".replaceAll(" ", "_")];
const NUMBERS = ["n0", "n1", "n2"];
/** Keys that come as base64. */
const CODED = ["b0", "b1 with blanks\r\n"];
/**
 * Keys that mg is not asked to give back, because the answers may differ (differences.ts, "base64
 * forgotten"). So everything may happen to them, and the second comes plainly and as base64.
 */
const NAMELESS = ["b2\xff\n", "m5"];
/** Flags that mean nothing to the command. */
const IDLE_FLAGS: Readonly<Record<string, readonly string[]>> = {
  mg: ["I", "x", "F7", "J5", "D3", "MS", "P", "Lany"],
  ms: ["v", "t", "f", "h", "l", "u", "x", "R30", "J5", "D3", "P1", "L"],
  md: ["v", "c", "t", "f", "h", "l", "s", "u", "N30", "R30", "J5", "D3", "MX", "P", "L"],
  ma: ["f", "h", "l", "s", "u", "x", "I", "F7", "R30", "P", "L"],
};
/** Flags that are none, or lack their argument. Of several mistakes in a line one is told. */
const BAD_FLAGS =
  "z A S5 0 9x T Tx T1x N N+1 R C C-1 E Ex F Fx F-1 D Dx J J-1 Mx M ! ~ @ [ { \x7f \x80 v t c"
    .split(" ");
/** Cas ids that commands choose: above all ids of the servers, so that both compare them alike. */
const CHOSEN_ID_MIN = 2n ** 60n;

/** Far from each other, so that a second more or less decides nothing. */
const SECONDS = [0, 100, 5000, 100_000];

const LONG_KEY = "k".repeat(251);

type Oddity = readonly [request: string, ...meets: Difference[]];

const ODDITIES: readonly Oddity[] = [
  ["mn\r\n"],
  ["mn whatever\r\n"],
  ["ma n0\r\n"],
  ["ma n0 v k\r\n"],
  ["mg\r\n", "word count"],
  ["ms\r\n", "word count"],
  ["mx m0\r\n"],
  ["MG m0\r\n"],
  ["mg m0 v v\r\n"],
  ["mg m0 S\r\n"],
  ["mg m0 5\r\n"],
  ["mg m0 !\r\n", "flags that are no letters"],
  ["mg m0 ~\r\n", "flags that are no letters"],
  ["mg m0 N\r\n"],
  ["mg m0 Nx\r\n"],
  ["mg m0 T\r\n"],
  ["mg m0 Rx k\r\n"],
  ["mg m0 C1\r\n", "mg C"],
  ["mg m0 E1\r\n", "flags E and x"],
  ["mg m0 x\r\n", "flags E and x"],
  ["mg m0 I vv k1 sS\r\n"],
  ["mg *** b\r\n"],
  ["mg abc b\r\n"],
  ["mg m0 O1234567890123456789012345678901 k\r\n"],
  ["mg m0 O12345678901234567890123456789012 k\r\n", "long opaque"],
  ["ms m0 2 O12345678901234567890123456789012\r\nhi\r\n", "long opaque of ms"],
  ["md m0 O12345678901234567890123456789012 k\r\n", "long opaque of ms"],
  ["mg m0 P1 L2 v\r\n"],
  [`mg m0 ${"k O1 v s t f h l c u q T1 R2 N3 I P1 L1 M1 F1".slice(0, 200)} C1\r\n`],
  [`mg ${LONG_KEY}\r\n`, "long meta key"],
  [`md ${LONG_KEY}\r\n`, "long meta key"],
  ["ms m0 x\r\n"],
  ["ms m0 -1\r\n"],
  ["ms m0 2147483647\r\n"],
  ["ms m0 2 v v\r\nhi\r\n"],
  ["ms m0 2 S100\r\nhi\r\n"],
  ["ms m0 2 MX\r\nhi\r\n"],
  ["ms m0 2 M\r\nhi\r\n", "long modes"],
  ["ma n0 M v\r\n", "long modes"],
  ["ms m0 2 Fx\r\nhi\r\n"],
  ["ms m0 2 F4294967295 \r\nhi\r\n"],
  ["ms m0 2 F-1\r\nhi\r\n"],
  ["ms m0 2 Tx\r\nhi\r\n"],
  ["ms m0 2 Cx\r\nhi\r\n"],
  ["ms m0 2 MA N0 c\r\nhi\r\n", "ms N"],
  ["ms m0 2 s\r\nhi\r\n", "ms s"],
  ["ms m0 2 b\r\nhi\r\n"],
  ["ms m0 2\r\nhix\r\nmn\r\n", "short line"],
  ["ms m0 2 q k\r\nhixyz\r\n", "short line"],
  ["mg YjI= b N100 k\r\n", "base64 forgotten"],
  ["mg YjI= b k\r\n"],
  ["md m0 v v\r\n", "md refusals"],
  ["md m0 S\r\n", "md refusals"],
  ["ma n0 S\r\n"],
  ["ma n0 v v\r\n"],
  ["ma n0 Jx\r\n"],
  ["ma n0 D100000000 T100\r\n", "lost T and E"],
  ["ma n0 D-1\r\n"],
  ["ma n0 Mx\r\n"],
  ["ma n0 Md\r\n"],
  ["ma n0 MIncr v\r\n", "long modes"],
  ["ms m0 2 Mset\r\nhi\r\n", "long modes"],
  ["ma m0 v k O1\r\n"],
  ["me nothing\r\n"],
  ["me m0\r\n", "me times"],
  ["me n0\r\n", "me times"],
  ["me m1 any flags\r\n", "me times"],
  ["mg m0 v1 kx sany\r\n", "flags with more"],
  ["ms m0 2 qQ cC bb\r\nhi\r\n", "flags with more"],
  ["mg m1 T-1 v\r\n"],
  ["mg m1 N-1 v s\r\n"],
  ["mg m1 R-1 v\r\n"],
  ["mg m1 T+5\r\n", "C numbers"],
  ["mg m1 T2147483648\r\n", "C numbers"],
  ["mg m1 T2147483647 v\r\n"],
  ["mg m1 N2592001 f\r\n"],
  ["ms m1 2 T-1\r\nhi\r\n"],
  ["ms m1 2 T99999999999\r\nhi\r\n", "C numbers"],
  ["ms m1 2 F4294967296\r\nhi\r\n", "C numbers"],
  ["ms m1 2 C18446744073709551616\r\nhi\r\n"],
  ["ms m1 2 C18446744073709551615 I\r\nhi\r\n"],
  ["ms m1 2 C0\r\nhi\r\n"],
  ["ms m1 2 MA C0 c\r\nhi\r\n"],
  ["ms m1 2 E0 c\r\nhi\r\n", "flags E and x"],
  ["ms m1 2 Ex\r\nhi\r\n", "flags E and x"],
  ["ms m1 2 E18446744073709551615 c\r\nhi\r\n", "flags E and x"],
  ["md m1 E5\r\n", "flags E and x"],
  ["md m1 I T-1\r\n"],
  ["md m1 C0\r\n"],
  ["ma n1 C0 v\r\n"],
  ["ma n1 J4611686018427387904 N0 v\r\n"],
  ["ma n1 J18446744073709551616 N0 v\r\n"],
  ["ma n1 D18446744073709551615 MD v\r\n"],
  ["ma n1 N-1 v\r\n"],
  ["ms *** 2 b\r\nhi\r\n"],
  ["ms YjI 2 b\r\nhi\r\n"],
  ["mg Yj!I= b v\r\n", "odd base64"],
  ["mg m1 T- v\r\n", "numbers without digits"],
  ["md *** b\r\n", "md refusals"],
  ["ma *** b\r\n"],
  [`mg ${"A".repeat(248)} b k\r\n`],
  [`ms ${"A".repeat(248)} 2 b k\r\nhi\r\n`],
  ["  mg m0 v\r\n", "leading blank"],
  ["mg  m0   v  \r\n"],
  ["mg m0 v\n"],
  ["ms m0 2 \nhi\r\n"],
  ["ms m0 02\r\nhi\r\n"],
  ["ms m0 +2\r\nhi\r\n", "C numbers"],
  ["ms m0 2x\r\n"],
  ["ms m0\r\n", "word count"],
  ["md\r\n", "word count"],
  ["ma\r\n", "word count"],
  ["me\r\n", "word count"],
  ["ms m0 2 k O1 P1 L1 v s t f h l c u q T1 R2 N3 I M1 F1 C1 E1\r\nhi\r\n", "idle flags"],
  [`ms m0 1048600 k\r\n${"x".repeat(1048600)}\r\n`],
];

/** Draws meta commands, and classic ones on the same keys. */
export class MetaCommandSource implements RequestSource {
  readonly operations: OperationSource;
  readonly #classic: CommandSource;
  readonly #without: ReadonlySet<Difference>;
  readonly #oddities: readonly Oddity[];
  readonly #ids: string[] = [];

  constructor(seed: number, without: ReadonlySet<Difference>) {
    this.operations = new OperationSource(seed, RANGES);
    this.#classic = new CommandSource(seed, without);
    this.#without = without;
    this.#oddities = ODDITIES.filter(([, ...meets]) => !meets.some((name) => without.has(name)));
  }

  learned(name: string): void {
    this.#ids.push(name);
    this.#classic.learned(name);
  }

  fence(number: number): Fence {
    return textFence(number);
  }

  closer(): readonly Part[] {
    return this.#classic.closer();
  }

  next(): readonly Part[] {
    const { operations } = this;
    const share = operations.random();
    if (share < CLASSIC_SHARE) return this.#classic.next();
    if (share < CLASSIC_SHARE + NEIGHBOUR_SHARE) return [this.#neighbour()];
    if (share < CLASSIC_SHARE + NEIGHBOUR_SHARE + ODD_SHARE) {
      return [operations.pick(this.#oddities)[0]];
    }
    switch (operations.integer(0, 10)) {
      case 0:
      case 1:
      case 2:
        return this.#set();
      case 3:
        return this.#delete();
      case 4:
      case 5:
        return this.#arithmetic();
      default:
        return this.#get();
    }
  }

  /** A classic command on a key that meta commands use. */
  #neighbour(): string {
    const { operations } = this;
    const key = operations.pick([...KEYS, ...NUMBERS]);
    return operations.pick([
      `get ${key}\r\n`,
      `gets ${key}\r\n`,
      `gat 5000 ${key}\r\n`,
      `touch ${key} 100\r\n`,
      `delete ${key}\r\n`,
      `set ${key} 3 0 2\r\n10\r\n`,
      `add ${key} 0 5000 2\r\n20\r\n`,
      `append ${key} 0 0 1\r\n5\r\n`,
      `incr ${operations.pick(NUMBERS)} 7\r\n`,
    ]);
  }

  #get(): readonly Part[] {
    const flags = this.#some(["s", "t", "v", "v", "v", "f", "h", "l", "c", "u"]);
    if (this.#chance(0.3)) flags.push(`N${this.#seconds()}`);
    if (this.#chance(0.1)) flags.push(`T${this.#seconds()}`);
    if (this.#chance(0.2)) flags.push(`R${this.#seconds() / 2}`);
    const all: Part[][] = flags.map((flag) => [flag]);
    if (this.#chance(0.2) && this.#isEqual("mg C")) all.push(this.#id());
    if (this.#chance(0.1)) all.push(...this.#chosenId());
    return this.#line("mg", KEYS, "", all);
  }

  #set(): readonly Part[] {
    const { operations } = this;
    const isNumber = this.#chance(0.3);
    const value = isNumber
      ? String(operations.integer(0, 100_000))
      : "v".repeat(operations.integer(0, this.#chance(0.02) ? 6000 : 40));
    const flags: Part[][] = this.#some(["c"]).map((flag) => [flag]);
    if (this.#chance(0.3)) flags.push([`F${operations.integer(0, 1000)}`]);
    if (this.#chance(0.3)) flags.push([`T${this.#seconds()}`]);
    if (this.#chance(0.5)) flags.push(this.#mode(["MS", "ME", "MA", "MP", "MR"]));
    if (this.#chance(0.3)) flags.push(this.#id());
    if (this.#chance(0.2)) flags.push(["I"]);
    if (this.#chance(0.1)) flags.push(...this.#chosenId());
    if (this.#chance(0.2) && this.#isEqual("ms N")) flags.push([`N${this.#seconds()}`]);
    if (this.#chance(0.3) && this.#isEqual("ms s")) flags.push(["s"]);
    const line = this.#line("ms", isNumber ? NUMBERS : KEYS, ` ${value.length}`, flags);
    return [...line, `${value}\r\n`];
  }

  #delete(): readonly Part[] {
    const flags: Part[][] = [];
    if (this.#chance(0.5)) flags.push(["I"]);
    if (this.#chance(0.3)) flags.push([`T${this.#seconds()}`]);
    if (this.#chance(0.3)) flags.push(this.#id());
    if (this.#chance(0.3) && this.#isEqual("flags E and x")) flags.push(["x"]);
    if (this.#chance(0.1)) flags.push(...this.#chosenId());
    if (this.#chance(0.1) && this.#isEqual("idle flags")) flags.push([`F${this.#seconds()}`]);
    return this.#line("md", this.#chance(0.8) ? KEYS : NUMBERS, "", flags);
  }

  #arithmetic(): readonly Part[] {
    const { operations } = this;
    const flags: Part[][] = this.#some(["t", "c", "v"]).map((flag) => [flag]);
    if (this.#chance(0.3)) flags.push([`N${this.#seconds()}`]);
    if (this.#chance(0.3)) flags.push([`J${operations.integer(0, 1000)}`]);
    // T and E on a number that becomes longer are lost there (differences.ts, "lost T and E").
    if (this.#chance(0.1)) flags.push([`T${this.#seconds()}`], ...this.#chosenId(), ["D0"]);
    else if (this.#chance(0.3)) flags.push([`D${operations.integer(0, 1000)}`]);
    if (this.#chance(0.8)) flags.push(this.#mode(["MI", "MI", "MD", "M+", "M-"]));
    if (this.#chance(0.1)) flags.push(this.#id());
    return this.#line("ma", NUMBERS, "", flags);
  }

  /** A line with these flags, those that every command takes, and some that mean nothing to it, in any order. */
  #line(
    command: string,
    keys: readonly string[],
    length: string,
    flags: readonly (readonly Part[])[],
  ): Part[] {
    const { operations } = this;
    const all = [...flags];
    const isCoded = this.#chance(BASE64_SHARE);
    // A number that becomes longer is a new item, too.
    const remembers = command !== "ma" && !all.some(([flag]) => forgetsBase64(flag)) &&
      this.#chance(0.5);
    const choices = !isCoded ? [...keys, NAMELESS[1]!] : remembers ? CODED : NAMELESS;
    const key = operations.pick(choices);
    if (isCoded) all.push(["b"]);
    if (this.#chance(0.3) && (command !== "mg" || !NAMELESS.includes(key))) all.push(["k"]);
    if (this.#chance(0.1) && this.#isEqual("idle flags")) {
      all.push(...this.#some(IDLE_FLAGS[command]!).map((flag) => [flag]));
    }
    if (this.#chance(0.3)) all.push([`O${operations.integer(0, 1e6)}`]);
    const makes = command === "ma" && all.some(([flag]) => String(flag).startsWith("N"));
    if (this.#chance(0.2) && (!makes || this.#isEqual("ma N q"))) all.push(["q"]);
    // The value behind a refused line is a line. A long one whose end comes later closes the connection.
    const isLine = Number(length) <= LINE_LENGTH_MAX;
    if (this.#chance(0.03) && isLine && this.#isEqual("bad flags")) {
      for (let count = operations.integer(1, 4); count > 0; count--) {
        all.push([operations.pick(BAD_FLAGS)]);
      }
    }
    shuffle(all, () => operations.random());
    const parts: Part[] = [`${command} ${isCoded ? btoa(key) : key}${length}`];
    for (const flag of all) parts.push(" ", ...flag);
    return [...parts, "\r\n"];
  }

  /** Flag M, with a letter more than it needs where that is known. */
  #mode(modes: readonly string[]): Part[] {
    const mode = this.operations.pick(modes);
    return [this.#chance(0.1) && this.#isEqual("long modes") ? `${mode}ore` : mode];
  }

  /** Flag E, where it is known. */
  #chosenId(): Part[][] {
    if (!this.#isEqual("flags E and x")) return [];
    return [[`E${CHOSEN_ID_MIN + BigInt(this.operations.integer(0, 2 ** 40))}`]];
  }

  /** Whether the other server does not differ there. */
  #isEqual(difference: Difference): boolean {
    return !this.#without.has(difference);
  }

  #id(): Part[] {
    const id = this.#ids.length === 0 || this.#chance(0.1)
      ? "1"
      : { hole: this.operations.pick(this.#ids.slice(-20)) };
    return ["C", id];
  }

  #seconds(): number {
    return this.operations.pick(SECONDS);
  }

  #chance(share: number): boolean {
    return this.operations.random() < share;
  }

  /** Some of the flags, each at most once. */
  #some(flags: readonly string[]): string[] {
    return [...new Set(flags.filter(() => this.#chance(0.4)))];
  }
}

/** Whether the flag makes a new item. memcached forgets that such an item's key came as base64. */
function forgetsBase64(flag: Part | undefined): boolean {
  return /^(?:N|x|MA|MP|MI|MD|M\+|M-)/.test(String(flag));
}

function shuffle<T>(list: T[], random: () => number): void {
  for (let left = list.length - 1; left > 0; left--) {
    const other = Math.floor(random() * (left + 1));
    [list[left], list[other]] = [list[other]!, list[left]!];
  }
}
