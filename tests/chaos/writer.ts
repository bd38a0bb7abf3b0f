// A writer that a test kills: writer.ts <proxy's port> <owner> <seed> <keys> <cache's port>…
// Half of its writes are `ms`; half take an update token and delete the key in every cache themselves. It prints
// `<key> <value> <version>` for each write that was acknowledged.
import { randomFrom } from "../support/random.ts";
import { PatientClient } from "./patient_client.ts";

const [proxyPort, owner, seed, keys, ...cachePorts] = Deno.args;
const random = randomFrom(Number(seed));
const proxy = new PatientClient(Number(proxyPort));
const caches = cachePorts.map((port) => new PatientClient(Number(port)));

for (let count = 0;; count++) {
  const key = `k${Math.floor(random() * Number(keys))}`;
  const value = `${owner}.${count}`;
  const version = random() < 0.5
    ? await writeAtOnce(key, value)
    : await writeUnderToken(key, value);
  // deno-lint-ignore no-console -- its output is its result
  if (version !== null) console.log(`${key} ${value} ${version}`);
}

/** Version of the row; null: not written, or nobody knows. */
async function writeAtOnce(key: string, value: string): Promise<number | null> {
  const reply = await proxy.try(`ms ${key} ${value.length} c\r\n${value}\r\n`);
  const version = /^HD c(\d+)/.exec(reply ?? "")?.[1];
  return version === undefined ? null : Number(version);
}

async function writeUnderToken(key: string, value: string): Promise<number | null> {
  const [, id] = /^TOKEN (\d+)/.exec(await proxy.insist(`token get ${key} ${owner}\r\n`))!;
  for (const cache of caches) {
    const reply = await cache.try(`delete ${key}\r\n`);
    if (/^(?:DELETED|NOT_FOUND)/.test(reply ?? "")) continue;
    await proxy.insist(`token release ${key} ${id}\r\n`);
    return null;
  }
  const reply = await proxy.insist(`uput ${key} 0 ${value.length} ${id}\r\n${value}\r\n`);
  const version = /^STORED (\d+)/.exec(reply)?.[1];
  return version === undefined ? null : Number(version);
}
