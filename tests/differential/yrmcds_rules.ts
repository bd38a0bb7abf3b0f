import { Status } from "../../protocol/reply/binary_status.ts";
import { opcodeOf } from "../support/sessions/binary_text.ts";
import type { Holes } from "../support/sessions/transcript.ts";
import type { DuelRules } from "./duel.ts";
import { BinaryLockSource, holeOf, LockDice, TextLockSource } from "./lock_commands.ts";
import type { RequestSource } from "./commands.ts";
import type { YrmcdsDifference } from "./differences.ts";
import { type Ids, isPacket, PACKET } from "./replies.ts";

export const OUR_YRMCDS_OPTIONS = ["-o", "compat=yrmcds"];

/** Its ids come again, see "ids by item": each of ours stands for one of theirs, not the other way round. */
export class IdsByItem implements Ids {
  readonly ours: Holes = new Map();
  readonly theirs: Holes = new Map();
  readonly #theirsOf = new Map<string, string>();
  readonly #learned: (name: string) => void;

  constructor(learned: (name: string) => void) {
    this.#learned = learned;
  }

  agree(ours: string, theirs: string, key?: string): boolean {
    const known = this.#theirsOf.get(ours);
    if (known !== undefined && known !== theirs) return false;
    this.#theirsOf.set(ours, theirs);
    if (key === undefined) return true;
    const name = holeOf(key);
    this.ours.set(name, ours);
    this.theirs.set(name, theirs);
    this.#learned(name);
    return true;
  }
}

type Operation = (reply: string) => string;

/** Changes to replies that remove known differences. */
const CHANGES: Partial<Record<YrmcdsDifference, Operation>> = {
  "error texts": (reply) => isRefusal(reply) ? PACKET.withoutBody(reply) : reply,
  "id before number": (reply) =>
    isArithmetic(reply) && PACKET.status(reply) === Status.EXISTS
      ? PACKET.withStatus(reply, Status.NOT_NUMERIC)
      : reply,
  "flags of Touch": (reply) => isOf(reply, "Touch") ? PACKET.withoutBody(reply) : reply,
};

/** A duel of few keys and many connections. */
export const YRMCDS_RULES: DuelRules = {
  connections: 8,
  batchMax: 12,
  closingShare: 0.1,
  ids: (learned) => new IdsByItem(learned),
  comparable: (replies) => {
    const changed = replies.map((reply) =>
      Object.values(CHANGES).reduce((text, operation) => operation(text), reply)
    );
    return sortedKeys(changed);
  },
};

/** Sources of a duel with yrmcds: connections of both protocols, alternating. */
export function lockSources(seed: number): RequestSource[] {
  const dice = new LockDice(seed);
  return [new TextLockSource(dice), new BinaryLockSource(dice)];
}

/** "order of keys": every list of keys sorted. */
function sortedKeys(replies: readonly string[]): string[] {
  const sorted: string[] = [];
  let keys: string[] = [];
  for (const reply of replies) {
    if (isListedKey(reply)) {
      keys.push(reply);
      continue;
    }
    sorted.push(...keys.sort(), reply);
    keys = [];
  }
  return [...sorted, ...keys];
}

function isListedKey(reply: string): boolean {
  return /^VALUE \S+\r\n$/.test(reply) || isOf(reply, "Keys") && reply.length > PACKET.headerLength;
}

function isOf(reply: string, name: string): boolean {
  return isPacket(reply) && PACKET.opcode(reply) === opcodeOf(name);
}

function isArithmetic(reply: string): boolean {
  return ["Increment", "IncrementQ", "Decrement", "DecrementQ"].some((name) => isOf(reply, name));
}

function isRefusal(reply: string): boolean {
  return isPacket(reply) && PACKET.status(reply) !== 0;
}
