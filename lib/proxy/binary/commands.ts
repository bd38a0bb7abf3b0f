import { Access } from "../../../protocol/auth/access.ts";
import { type BinaryCommandName, OPCODES } from "../../../protocol/binary_opcodes.ts";
import { Status } from "../../../protocol/binary_status.ts";
import { changeOf, type Edit } from "../../rows/databases/backend.ts";
import { latin1Bytes } from "../../rows/bytes.ts";
import { Arithmetic, extending } from "../../rows/databases/edits.ts";
import type { PutReply } from "../flows.ts";
import type { Proxy } from "../proxy.ts";
import { proxyStats } from "../statistics/statistics.ts";
import { type Header, uint32Bytes, uint64Bytes } from "./frames.ts";
import type { ReplyParts } from "./frames.ts";
import type { SaslExchange } from "./sasl.ts";

/** A request with its body. */
export interface BinaryRequest {
  readonly header: Header;
  readonly extras: DataView;
  /** One character a byte. */
  readonly key: string;
  readonly value: Uint8Array;
}

/** The connection, as handlers see it. */
export interface BinarySession {
  readonly proxy: Proxy;
  readonly version: string;
  readonly sasl: SaslExchange;
  /** Appends a reply. A quiet request gets it only if its row of the table says so. */
  reply(parts: ReplyParts): void;
}

/** An opcode. */
export interface BinaryCommand {
  readonly quiet: boolean;
  /** The length of the extras, in bytes. */
  readonly extrasLength: number;
  /** The access that it needs. */
  readonly access: Access;
  readonly hasKey: boolean;
  readonly hasValue: boolean;
  /** The status that the quiet form does not send. */
  readonly quietStatus: Status;
  readonly handler: (session: BinarySession, request: BinaryRequest) => Promise<void> | void;
}

/** A request that is refused, with the status of its reply. */
export class BinaryRefusal extends Error {
  override readonly name = "BinaryRefusal";
  readonly status: Status;

  constructor(status: Status, message = "") {
    super(message);
    this.status = status;
  }
}

/** The exptime that forbids Increment and Decrement to create a row. */
const NO_CREATION = 0xffffffff;

type CommandRow = readonly [
  name: BinaryCommandName,
  extrasLength: number,
  access: Access,
  hasKey: boolean,
  hasValue: boolean,
  quietStatus: Status,
  handler: BinaryCommand["handler"],
];

const { OK, NOT_FOUND } = Status;
const { NONE, READ, WRITE } = Access;

// deno-fmt-ignore
const ROWS: readonly CommandRow[] = [
  // name             extras, access, key,   value, not sent,  handler
  ["Get",             0,      READ,   true,  false, NOT_FOUND, (s, r) => get(s, r, false)],
  ["GetK",            0,      READ,   true,  false, NOT_FOUND, (s, r) => get(s, r, true)],
  ["Set",             8,      WRITE,  true,  true,  OK,        (s, r) => store(s, r, Status.OK)],
  ["Add",             8,      WRITE,  true,  true,  OK,        (s, r) => store(s, r, Status.EXISTS)],
  ["Replace",         8,      WRITE,  true,  true,  OK,        (s, r) => store(s, r, Status.NOT_FOUND)],
  ["Delete",          0,      WRITE,  true,  false, OK,        remove],
  ["Increment",       20,     WRITE,  true,  false, OK,        (s, r) => arithmetic(s, r, true)],
  ["Decrement",       20,     WRITE,  true,  false, OK,        (s, r) => arithmetic(s, r, false)],
  ["Noop",            0,      READ,   false, false, OK,        (s) => s.reply({})],
  ["Version",         0,      NONE,   false, false, OK,        (s) => s.reply({ value: latin1Bytes(s.version) })],
  ["Append",          0,      WRITE,  true,  true,  OK,        (s, r) => extend(s, r, false)],
  ["Prepend",         0,      WRITE,  true,  true,  OK,        (s, r) => extend(s, r, true)],
  ["Stat",            0,      READ,   false, false, OK,        stat],
  ["Touch",           4,      WRITE,  true,  false, OK,        touch],
  ["GaT",             4,      WRITE,  true,  false, NOT_FOUND, (s, r) => getAndTouch(s, r, false)],
  ["GaTK",            4,      WRITE,  true,  false, NOT_FOUND, (s, r) => getAndTouch(s, r, true)],
  ["SaslMechanisms",  0,      NONE,   false, false, OK,        (s) => answer(s, s.sasl.mechanisms())],
  ["SaslAuth",        0,      NONE,   true,  true,  OK,        async (s, r) => answer(s, await s.sasl.start(r.key, r.value))],
  ["SaslStep",        0,      NONE,   true,  true,  OK,        async (s, r) => answer(s, await s.sasl.step(r.key, r.value))],
];

/** The commands by opcode. Quit is not among them: it ends the connection. */
export const BINARY_COMMANDS: ReadonlyMap<number, BinaryCommand> = new Map(
  ROWS.flatMap(([name, extrasLength, access, hasKey, hasValue, quietStatus, handler]) => {
    const [opcode, quietOpcode] = OPCODES[name];
    const command = { quiet: false, extrasLength, access, hasKey, hasValue, quietStatus, handler };
    const pairs: [number, BinaryCommand][] = [[opcode, command]];
    if (quietOpcode !== null) pairs.push([quietOpcode, { ...command, quiet: true }]);
    return pairs;
  }),
);

/** @throws BinaryRefusal when the reply is an error, so that it has a text. */
function answer(session: BinarySession, reply: ReplyParts): void {
  const { status = OK } = reply;
  if (status !== OK && status !== Status.AUTH_CONTINUE) throw new BinaryRefusal(status);
  session.reply(reply);
}

/** Get, GetK: from the database, because every reply carries a cas id, the row's version. */
async function get(
  session: BinarySession,
  { key }: BinaryRequest,
  withKey: boolean,
): Promise<void> {
  const { row } = await session.proxy.read(key);
  if (row === null) return session.reply({ status: Status.NOT_FOUND, ...withKey ? { key } : {} });
  session.reply({
    extras: uint32Bytes(row.flags),
    value: row.data,
    casId: row.version,
    ...withKey ? { key } : {},
  });
}

async function getAndTouch(
  session: BinarySession,
  request: BinaryRequest,
  withKey: boolean,
): Promise<void> {
  requireNoExpiry(request.extras.getUint32(0));
  await get(session, request, withKey);
}

async function touch(session: BinarySession, { key, extras }: BinaryRequest): Promise<void> {
  requireNoExpiry(extras.getUint32(0));
  const { row } = await session.proxy.read(key);
  session.reply(row === null ? { status: Status.NOT_FOUND } : { casId: row.version });
}

/** @param refused The status when the row's absence or presence forbids the write; OK: neither does. */
async function store(
  session: BinarySession,
  { header, key, extras, value }: BinaryRequest,
  refused: Status,
): Promise<void> {
  requireNoExpiry(extras.getUint32(4));
  const change = { flags: extras.getUint32(0), data: value };
  const edit: Edit = refused === Status.OK
    ? change
    : (row) => (row === null) === (refused === Status.EXISTS) ? change : null;
  await write(session, header, key, edit, refused);
}

async function remove(session: BinarySession, { header, key }: BinaryRequest): Promise<void> {
  const edit: Edit = (row) => row === null ? null : "delete";
  await write(session, header, key, edit, Status.NOT_FOUND);
}

async function extend(
  session: BinarySession,
  { header, key, value }: BinaryRequest,
  before: boolean,
): Promise<void> {
  await write(session, header, key, extending(value, before), Status.NOT_STORED);
}

async function arithmetic(
  session: BinarySession,
  { header, key, extras }: BinaryRequest,
  increment: boolean,
): Promise<void> {
  const exptime = extras.getUint32(16);
  if (exptime !== NO_CREATION) requireNoExpiry(exptime);
  const initial = exptime === NO_CREATION ? null : extras.getBigUint64(8);
  const work = new Arithmetic(extras.getBigUint64(0), increment, initial);
  const reply = await session.proxy.write(key, comparing(header, (row) => work.edit(row)));
  if (!work.isNumeric) throw new BinaryRefusal(Status.NOT_NUMERIC);
  const casId = committed(reply, header, Status.NOT_FOUND);
  session.reply({ value: uint64Bytes(work.value), casId });
}

/** Writes a row, if it has the version that the request names. */
async function write(
  session: BinarySession,
  header: Header,
  key: string,
  edit: Edit,
  refused: Status,
): Promise<void> {
  const reply = await session.proxy.write(key, comparing(header, edit));
  session.reply({ casId: committed(reply, header, refused) });
}

/** Returns an edit that is refused when the row does not have the cas id of the request. */
function comparing({ casId }: Header, edit: Edit): Edit {
  if (casId === 0n) return edit;
  return (row) => row !== null && BigInt(row.version) === casId ? changeOf(edit, row) : null;
}

/** Returns the version of a committed write. @throws BinaryRefusal */
function committed(reply: PutReply, { casId }: Header, refused: Status): number {
  switch (reply.kind) {
    case "committed":
      return reply.version;
    case "refused":
      if (casId === 0n) throw new BinaryRefusal(refused);
      throw new BinaryRefusal(reply.row === null ? Status.NOT_FOUND : Status.EXISTS);
    case "failed":
    case "unknown":
      throw new BinaryRefusal(
        Status.TEMPORARY_FAILURE,
        reply.kind === "unknown" ? `outcome unknown: ${reply.reason}` : reply.reason,
      );
    default:
      throw new BinaryRefusal(Status.TEMPORARY_FAILURE, reply.kind);
  }
}

/** @throws BinaryRefusal */
function requireNoExpiry(exptime: number): void {
  if (exptime === 0) return;
  throw new BinaryRefusal(Status.INVALID, "rows have no expiry time: exptime must be 0");
}

function stat(session: BinarySession): void {
  for (const [key, value] of proxyStats(session.proxy)) {
    session.reply({ key, value: latin1Bytes(String(value)) });
  }
  session.reply({});
}
