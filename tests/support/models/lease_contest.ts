import { assert, assertEquals } from "@std/assert";
import { ConversationSide } from "../sessions/conversation_side.ts";
import { type ContestPlan, withRequests } from "./contest_property.ts";
import { LEASE_COMMANDS, type LeaseCommand, LeaseModel, leaseRequestOf } from "./lease_model.ts";
import { randomFrom } from "../random.ts";
import { type Holes, matchReply, requestText, showText } from "../sessions/transcript.ts";

const OPTIONS = "-z 3333 --lease-entries 1000 --tokens volatile --allow-token-drop".split(" ");
const BY_ID = ["cas", "ms C", "md C", "lease-set", "token release", "token drop id"];
const OWNERS = ["", "host:1", "host:2"];
const KEYS = ["a", "b", "c", "k".repeat(250)];
const LEASE_SECONDS = [0, 1, 2, 5, 20];
/** A sequence of this length learns ids; a shorter one may not. */
const STEPS_TO_LEARN = 500;
const EXPTIMES = [0, 0, 0, 1, 3, 8, 30, -1];

/** Draws one command. Most ids are current, the others are older ones. */
function draw(random: () => number, model: LeaseModel, ids: Holes): LeaseCommand {
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)]!;
  const known = [...ids.keys()];
  for (;;) {
    const name = pick(LEASE_COMMANDS);
    if (name === "flush_all" && random() < 0.9) continue;
    if (name === "quarantine on" && random() < 0.95) continue;
    // Most of the time a key has no token, so that other commands find something.
    if (name === "token get" && random() < 0.6) continue;
    const key = pick(KEYS);
    const current = model.idOf(key);
    const id = current !== undefined && ids.has(current) && random() < 0.7
      ? current
      : pick(known.slice(-20));
    const isById = BY_ID.includes(name);
    if (isById && id === undefined) continue;
    const isLeasing = name === "getss" || name === "deletess";
    const seconds = pick(isLeasing ? LEASE_SECONDS : EXPTIMES);
    const value = String(1 + Math.floor(random() * 99));
    return { name, key, seconds, value, id: id ?? "", owner: pick(OWNERS) };
  }
}

/** Plays random commands to conversations and to the model of leases and update tokens, and compares every reply. */
export function leaseContest({ steps }: ContestPlan): void {
  withRequests((note) => playLeases(steps, note));
}

function playLeases(steps: readonly number[], note: (request: string) => void): void {
  const side = new ConversationSide(OPTIONS);
  const peers = [side.connect(), side.connect()];
  const model = new LeaseModel();
  const ids: Holes = new Map();
  for (const [count, seed] of steps.entries()) {
    const random = randomFrom(seed);
    if (random() < 0.15) {
      const seconds = 1 + Math.floor(random() * 3);
      note(`clock +${seconds}`);
      model.advance(seconds);
      side.advanceNow(seconds);
    }
    const command = draw(random, model, ids);
    const request = requestText(leaseRequestOf(command), ids);
    const index = Math.floor(random() * peers.length);
    note(`${index}> ${showText(request)}`);
    const reply = peers[index]!.ask(request);
    const expected = model.execute(command);
    if (matchReply(expected, ids, reply) !== reply.length) {
      const wanted = expected.map((part) =>
        typeof part === "string" ? part : ids.get(part.hole) ?? `{${part.hole}}`
      );
      assertEquals(showText(reply), showText(wanted.join("")), `after ${showText(request)}`);
    }
    if (count % 100 === 0) side.check();
  }
  if (steps.length >= STEPS_TO_LEARN) assert(ids.size > steps.length / 100, "ids were learned");
  assertEquals(new Set(ids.values()).size, ids.size, "no id comes twice");
}
