import { getToken, releaseToken } from "./token.ts";
import { StoreMode } from "../../store/operation.ts";
import { Access, type AccessRule } from "../auth/access.ts";
import { type BinaryCommandName, OPCODES } from "../binary_opcodes.ts";
import type { Conversation, RequestConversation } from "../conversation.ts";
import type { Flow } from "../request.ts";
import type { BinaryRequest } from "./request.ts";
import * as admin from "./admin.ts";
import { done, refuseAccess } from "./answer.ts";
import { keys } from "./keys.ts";
import { deletess, getss } from "./lease.ts";
import { lock, unlock, unlockAll } from "./lock.ts";
import { get, getAndTouch, lockAndGet, touch } from "./read.ts";
import * as sasl from "./sasl.ts";
import { stat, statAccess } from "./stats.ts";
import { arithmetic, extend, remove, replaceAndUnlock, store } from "./write.ts";

/** Whether a request must, may or must not have a key or a value. A value that must be there has a byte at least. */
export const Part = { NONE: 0, SOME: 1, ANY: 2 } as const;
export type Part = typeof Part[keyof typeof Part];

/** Executes a request. All but reads take a RequestConversation. */
type BinaryHandler = (conversation: Conversation, binary: BinaryRequest) => Flow;

/** A command of the binary protocol. */
export interface BinaryCommand {
  /** As `stats ops` has it. */
  readonly name: string;
  readonly opcode: number;
  /** Success, or a miss of a read, is not answered. */
  readonly quiet: boolean;
  /** The lengths that the extras may have, in bytes. */
  readonly extras: readonly number[];
  readonly key: Part;
  readonly value: Part;
  /** The access that a peer needs; Access.NONE: also one that has not authenticated may. */
  readonly access: AccessRule<RequestConversation>;
  readonly handler: BinaryHandler;
  /** Only looks a key up: several in a row are prefetched and executed as a group. */
  readonly grouped: boolean;
  /** Whether the handler must be called with the mutex. Others take it by `thread.hold` if they need it. */
  readonly needsMutex: boolean;
  /** As CommandRow.isAhead. */
  readonly isAhead: boolean;
}

type Row = readonly [
  name: BinaryCommandName,
  extras: readonly number[],
  key: Part,
  value: Part,
  access: AccessRule<RequestConversation>,
  handler: BinaryHandler,
  grouped?: true,
];

const { SET, ADD, REPLACE, APPEND, PREPEND } = StoreMode;
const { NONE, SOME, ANY } = Part;
const { NONE: OPEN, READ, WRITE, ADMIN } = Access;

// deno-fmt-ignore
const ROWS: readonly Row[] = [
  // name             extras   key   value access      handler
  ["Get",             [0],     SOME, NONE, READ,       (c, r) => get(c, r, false), true],
  ["Set",             [8],     SOME, ANY,  WRITE,      (c, r) => store(c, r, SET)],
  ["Add",             [8],     SOME, ANY,  WRITE,      (c, r) => store(c, r, ADD)],
  ["Replace",         [8],     SOME, ANY,  WRITE,      (c, r) => store(c, r, REPLACE)],
  ["Delete",          [0],     SOME, NONE, WRITE,      remove],
  ["Increment",       [20],    SOME, NONE, WRITE,      (c, r) => arithmetic(c, r, true)],
  ["Decrement",       [20],    SOME, NONE, WRITE,      (c, r) => arithmetic(c, r, false)],
  ["Quit",            [0],     NONE, NONE, READ,       admin.quit],
  ["Flush",           [0, 4],  NONE, NONE, ADMIN,      admin.flush],
  ["Noop",            [0],     NONE, NONE, READ,       done],
  ["Version",         [0],     NONE, NONE, OPEN,       admin.version],
  ["GetK",            [0],     SOME, NONE, READ,       (c, r) => get(c, r, true), true],
  ["Append",          [0],     SOME, ANY,  WRITE,      (c, r) => extend(c, r, APPEND)],
  ["Prepend",         [0],     SOME, ANY,  WRITE,      (c, r) => extend(c, r, PREPEND)],
  ["Stat",            [0],     ANY,  NONE, statAccess, stat],
  ["Touch",           [4],     SOME, NONE, WRITE,      touch],
  ["GaT",             [4],     SOME, NONE, WRITE,      (c, r) => getAndTouch(c, r, false)],
  ["SaslMechanisms",  [0],     NONE, NONE, OPEN,       sasl.mechanisms],
  ["SaslAuth",        [0],     SOME, ANY,  OPEN,       sasl.start],
  ["SaslStep",        [0],     SOME, ANY,  OPEN,       sasl.step],
  ["GaTK",            [4],     SOME, NONE, WRITE,      (c, r) => getAndTouch(c, r, true)],
  ["Lock",            [0],     SOME, NONE, WRITE,      lock],
  ["Unlock",          [0],     SOME, NONE, WRITE,      unlock],
  ["UnlockAll",       [0],     NONE, NONE, WRITE,      unlockAll],
  ["LaG",             [0, 4],  SOME, NONE, WRITE,      (c, r) => lockAndGet(c, r, false)],
  ["LaGK",            [0, 4],  SOME, NONE, WRITE,      (c, r) => lockAndGet(c, r, true)],
  ["RaU",             [8],     SOME, SOME, WRITE,      replaceAndUnlock],
  ["Keys",            [0],     ANY,  NONE, ADMIN,      keys],
  ["GetSS",           [4],     SOME, NONE, WRITE,      (c, r) => getss(c, r, false)],
  ["GetSSK",          [4],     SOME, NONE, WRITE,      (c, r) => getss(c, r, true)],
  ["DeleteSS",        [4],     SOME, NONE, WRITE,      deletess],
  ["TokenGet",        [0],     SOME, ANY,  WRITE,      getToken],
  ["TokenRelease",    [8],     SOME, NONE, WRITE,      releaseToken],
];

const AHEAD: readonly BinaryCommandName[] = [
  ...["Set", "Add", "Replace", "Delete"] as const,
  ...["Increment", "Decrement", "Append", "Prepend", "Touch"] as const,
];

/** By opcode. */
export const BINARY_COMMANDS: readonly BinaryCommand[] = ROWS.flatMap(
  ([name, extras, key, value, access, handler, grouped = false]) => {
    const [opcode, quietOpcode] = OPCODES[name];
    const needsMutex = !grouped && handler !== done;
    const parts = { extras, key, value, isAhead: AHEAD.includes(name) };
    const loud = { name, opcode, quiet: false, ...parts, access, handler, grouped, needsMutex };
    if (quietOpcode === null) return [loud];
    return [loud, { ...loud, name: `${name}Q`, opcode: quietOpcode, quiet: true }];
  },
).sort((a, b) => a.opcode - b.opcode);

/**
 * Returns the commands for a peer with this access: commands of higher access are refused. Before authentication it
 * has only the commands that need no access.
 */
export function binaryCommandsFor(access: Access): readonly BinaryCommand[] {
  if (access === ADMIN) return BINARY_COMMANDS;
  if (access === OPEN) return BINARY_COMMANDS.filter((command) => command.access === OPEN);
  return BINARY_COMMANDS.map((command) => {
    const { access: rule, handler } = command;
    if (typeof rule === "number") {
      return rule <= access ? command : { ...command, handler: refuseAccess, grouped: false };
    }
    const permitted: BinaryHandler = (conversation, binary) =>
      rule(conversation) <= access
        ? handler(conversation, binary)
        : refuseAccess(conversation, binary);
    return { ...command, handler: permitted };
  });
}
