import { assert, assertEquals } from "@std/assert";
import { crc32 } from "node:zlib";
import { Client, RequestError, textCodec } from "../../../lib/client/mod.ts";
import { randomFrom } from "../../support/random.ts";
import { HostileNetwork } from "./hostile_network.ts";
import { until } from "../../support/servers/server_process.ts";
import { startLeased } from "./servers.ts";

const CLIENTS = 4;
const KEYS = 500;
const IN_FLIGHT = 100;
/** Every black hole costs so much time. A time-out on a busy machine is a failure as any other. */
const REPLY_MS = 300;
const FILL_MAX = 300;
/** A fault that has not happened yet makes a run so many times as long at most. */
const REQUESTS_FACTOR_MAX = 4;

/** The results of the requests of a run. */
export interface Tortured {
  readonly answered: number;
  readonly failed: number;
  /** Values whose checksum is wrong: the network has changed them. */
  readonly damaged: number;
  readonly faults: Readonly<Record<string, number>>;
}

/**
 * Clients send requests through a network that delays, splits, resets, ends, loses and changes replies. Values carry
 * their key and a checksum.
 *
 * @param requests The number of requests that get an answer at least.
 * @param bytesMax Between two faults of a connection so many bytes of replies pass at most.
 * @throws When a value belongs to another key, or when a socket is left.
 */
export async function torture(requests: number, seed: number, bytesMax: number): Promise<Tortured> {
  const random = randomFrom(seed);
  await using server = await startLeased();
  await using network = await HostileNetwork.start(server.port, random, bytesMax);
  const counts = { answered: 0, failed: 0, damaged: 0 };
  const clients = Array.from(
    { length: CLIENTS },
    () =>
      new Client<string>(`127.0.0.1:${network.port}`, {
        codec: textCodec,
        replyMs: REPLY_MS,
        connections: 2,
      }),
  );
  const work = async (client: Client<string>, number: number): Promise<void> => {
    while (
      counts.answered < requests ||
      !network.isComplete && counts.answered < REQUESTS_FACTOR_MAX * requests
    ) {
      const key = `${number}:${Math.floor(random() * KEYS)}`;
      try {
        if (random() < 0.1) await client.set(key, valueOf(key, Math.floor(random() * FILL_MAX)));
        else check(key, await client.get(key), counts);
        counts.answered++;
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        counts.failed++;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  };
  try {
    await Promise.all(
      clients.flatMap((client, number) =>
        Array.from({ length: IN_FLIGHT }, () => work(client, number))
      ),
    );
  } finally {
    await Promise.all(clients.map((client) => client.close()));
  }
  await until(() => network.open === 0);
  return { ...counts, faults: network.counts };
}

function valueOf(key: string, length: number): string {
  const text = `${key} ${"x".repeat(length)}`;
  return `${text} ${crc32(text)}`;
}

function check(key: string, value: string | undefined, counts: { damaged: number }): void {
  if (value === undefined) return;
  const end = value.lastIndexOf(" ");
  if (`${crc32(value.slice(0, end))}` !== value.slice(end + 1)) counts.damaged++;
  else assert(value.startsWith(`${key} `), `${key} got ${value}`);
}

/** Runs and checks that the network has done its worst. */
export async function tortureAll(requests: number, seed: number): Promise<Tortured> {
  const ran = await torture(requests, seed, Math.max(20_000, requests / 10));
  assert(ran.answered >= requests);
  assertEquals(Object.entries(ran.faults).filter(([, count]) => count === 0), [], "faults missing");
  return ran;
}
