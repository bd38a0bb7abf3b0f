// A writer that a test kills: writer.ts <origin's port> <owner> <seed> <keys> <cached keys> <ports of caches>
// It deletes the first keys, which clients cache, in all caches, and writes them under update tokens. Of the others
// a third of its writes are `ms`, a third take an update token first, a third are the client library's. For each write
// it waits for a byte of its input. It prints `begins <command> <key> <value>`, then `ended` and the version, `done` if
// it does not know that, `failed` if nothing will ever be written, or `unknown`.
import { Cache, OutcomeUnknownError, RowWriteError, textCodec } from "../../lib/client/mod.ts";
import { randomFrom } from "../support/random.ts";
import { PatientClient } from "./patient_client.ts";

const [originPort, owner, seed, keys, cachedKeys, ...cachePorts] = Deno.args;
const random = randomFrom(Number(seed));
const origin = new PatientClient(Number(originPort));
const caches = cachePorts.map((port) => new PatientClient(Number(port)));
// deno-lint-ignore no-console -- its output is its result
const report = console.log;
const WAYS = [["ms", writeAtOnce], ["uput", writeUnderToken], ["putRow", writeByLibrary]] as const;
const library = new Cache<string>(`127.0.0.1:${originPort}`, { codec: textCodec });

/** How a write has ended: with a version, or as a word says. */
type End = number | "done" | "failed" | "unknown";

for (let count = 0; await Deno.stdin.read(new Uint8Array(1)) !== null; count++) {
  const number = Math.floor(random() * Number(keys));
  const key = `k${number}`;
  const value = `${owner}.${count}`;
  const [command, way] = number < Number(cachedKeys)
    ? ["uput", writeBesideCaches] as const
    : WAYS[Math.floor(random() * WAYS.length)]!;
  report(`begins ${command} ${key} ${value}`);
  report(`ended ${await way(key, value)}`);
}

async function writeByLibrary(key: string, value: string): Promise<End> {
  let failure: unknown;
  try {
    return await library.putRow(key, value, { limitMs: 500 });
  } catch (error) {
    failure = error;
  }
  while (failure instanceof OutcomeUnknownError) {
    try {
      return await failure.resolve() === "done" ? "done" : "failed";
    } catch (error) {
      failure = error;
    }
  }
  // Any other error is of the token: nothing was written.
  if (!(failure instanceof RowWriteError)) await new Promise((resolve) => setTimeout(resolve, 20));
  return "failed";
}

async function writeAtOnce(key: string, value: string): Promise<End> {
  const reply = await origin.try(`ms ${key} ${value.length} c\r\n${value}\r\n`);
  const version = /^HD c(\d+)/.exec(reply ?? "")?.[1];
  return version === undefined ? "unknown" : Number(version);
}

async function writeBesideCaches(key: string, value: string): Promise<End> {
  return await writeUnderToken(key, value, caches);
}

async function writeUnderToken(
  key: string,
  value: string,
  deletedIn: readonly PatientClient[] = [],
): Promise<End> {
  const [, id] = /^TOKEN (\d+)/.exec(await origin.insist(`token get ${key} ${owner}\r\n`))!;
  for (const cache of deletedIn) await cache.insist(`delete ${key}\r\n`);
  const reply = await origin.insist(`uput ${key} 0 ${value.length} ${id}\r\n${value}\r\n`);
  const version = /^STORED (\d+)/.exec(reply)?.[1];
  return version === undefined ? "unknown" : Number(version);
}
