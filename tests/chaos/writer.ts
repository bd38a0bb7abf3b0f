// A writer that a test kills: writer.ts <origin's port> <owner> <seed> <keys> <cached keys> <ports of caches>
// It deletes the first keys, which clients cache, in all caches, and writes them under update tokens. Of the others
// a third of its writes are `ms`, a third take an update token first, a third are the client library's. It
// prints `<key> <value> <version>` for each write that was acknowledged, and `<key> <value> failed` for each that the
// library says will never be.
import { Cache, OutcomeUnknownError, RowWriteError, textCodec } from "../../lib/client/mod.ts";
import { randomFrom } from "../support/random.ts";
import { PatientClient } from "./patient_client.ts";

const [originPort, owner, seed, keys, cachedKeys, ...cachePorts] = Deno.args;
const random = randomFrom(Number(seed));
const origin = new PatientClient(Number(originPort));
const caches = cachePorts.map((port) => new PatientClient(Number(port)));
const library = new Cache<string>(`127.0.0.1:${originPort}`, { codec: textCodec });

for (let count = 0;; count++) {
  const number = Math.floor(random() * Number(keys));
  const key = `k${number}`;
  const value = `${owner}.${count}`;
  const way = number < Number(cachedKeys)
    ? writeBesideCaches
    : [writeAtOnce, writeUnderToken, writeByLibrary][Math.floor(random() * 3)]!;
  const version = await way(key, value);
  // deno-lint-ignore no-console -- its output is its result
  if (version !== null) console.log(`${key} ${value} ${version}`);
}

async function writeByLibrary(key: string, value: string): Promise<number | "failed" | null> {
  let failure: unknown;
  try {
    return await library.putRow(key, value, { limitMs: 500 });
  } catch (error) {
    failure = error;
  }
  while (failure instanceof OutcomeUnknownError) {
    try {
      return await failure.resolve() === "done" ? null : "failed";
    } catch (error) {
      failure = error;
    }
  }
  // Any other error is of the token: nothing was written.
  if (!(failure instanceof RowWriteError)) await new Promise((resolve) => setTimeout(resolve, 20));
  return "failed";
}

/** Version of the row; null: not written, or nobody knows. */
async function writeAtOnce(key: string, value: string): Promise<number | null> {
  const reply = await origin.try(`ms ${key} ${value.length} c\r\n${value}\r\n`);
  const version = /^HD c(\d+)/.exec(reply ?? "")?.[1];
  return version === undefined ? null : Number(version);
}

async function writeBesideCaches(key: string, value: string): Promise<number | null> {
  return await writeUnderToken(key, value, caches);
}

async function writeUnderToken(
  key: string,
  value: string,
  deletedIn: readonly PatientClient[] = [],
): Promise<number | null> {
  const [, id] = /^TOKEN (\d+)/.exec(await origin.insist(`token get ${key} ${owner}\r\n`))!;
  for (const cache of deletedIn) await cache.insist(`delete ${key}\r\n`);
  const reply = await origin.insist(`uput ${key} 0 ${value.length} ${id}\r\n${value}\r\n`);
  const version = /^STORED (\d+)/.exec(reply)?.[1];
  return version === undefined ? null : Number(version);
}
