// Servers with options chosen so that few of them try every pair: each plays a script and stops without an error.

import { assertEquals, assertMatch } from "@std/assert";
import { type Assignments, ROLE_ROWS, wordsOf } from "../lib/cli/option_roles.ts";
import { noop } from "../support/sessions/counter_packets.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { binaryReplies, saslLogin } from "../support/sessions/auth_requests.ts";
import { needs } from "../support/needs/needs.ts";
import { randomFrom } from "../support/random.ts";
import { roundsOf } from "../support/rounds.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { type Client, TRANSPORTS, until } from "../support/servers/server_process.ts";
import { UdpClient } from "../support/servers/udp_client.ts";
import { type Configuration, coveringConfigurations } from "./covering.ts";
import { isDeclared, ITEM_STEPS, play, ROW_STEPS, type Step } from "./script.ts";
import { ConfiguredServer, SharedFiles } from "./setting.ts";

/** Configurations of a run, which takes about a minute. The next seed chooses others. */
const COUNT = 18;
const ITEMS = "item:";
const ROWS = "row:";

/** The replies of servers with the default options. */
interface Expected {
  readonly items: readonly string[];
  readonly rows: readonly string[];
}

function assignments(...pairs: [string, string][]): Assignments {
  return new Map(pairs);
}

async function defaultReplies(files: SharedFiles): Promise<Expected> {
  const given = assignments(["db", "{db}"], ["rows", `${ROWS},product:`]);
  const asItems = async (): Promise<readonly string[]> => {
    await using setting = await ConfiguredServer.start({ role: "plain", given: new Map() }, files);
    using client = await setting.connect();
    return await play(client, ITEMS, ITEM_STEPS);
  };
  const asRows = async (): Promise<readonly string[]> => {
    await using setting = await ConfiguredServer.start({ role: "origin", given }, files);
    using client = await setting.connect();
    return await play(client, ROWS, ROW_STEPS);
  };
  const [items, rows] = await Promise.all([asItems(), asRows()]);
  return { items, rows };
}

function compare(
  configuration: Configuration,
  steps: readonly Step[],
  replies: readonly string[],
  expected: readonly string[],
): void {
  const found = steps.flatMap((step, index) => {
    const [reply, should] = [replies[index]!, expected[index]!];
    if (reply === should || isDeclared(configuration, step, reply)) return [];
    return [
      `${step.name}: ${JSON.stringify(reply.slice(0, 200))} instead of ${
        JSON.stringify(should.slice(0, 200))
      }`,
    ];
  });
  assertEquals(found, []);
}

/** Plays the scripts by text. */
async function playText(
  configuration: Configuration,
  client: Client,
  expected: Expected,
): Promise<void> {
  compare(configuration, ITEM_STEPS, await play(client, ITEMS, ITEM_STEPS), expected.items);
  if (configuration.role !== "plain") {
    compare(configuration, ROW_STEPS, await play(client, ROWS, ROW_STEPS), expected.rows);
  }
  if (configuration.role === "views") {
    await client.ask("get product:1\r\n", "VALUE product:1 0 3\r\none\r\nEND\r\n");
  }
  await client.ask("set item:kept 1 0 4\r\nkept\r\n", "STORED\r\n");
  const settings = await client.stats("settings");
  for (const [option, setting] of SHOWN) {
    const value = configuration.given.get(option);
    if (value !== undefined) assertMatch(settings, new RegExp(`^STAT ${setting} ${value}\r$`, "m"));
  }
  assertMatch(await client.stats(), /^STAT curr_items [1-9]/m);
}

/** Options whose value `stats settings` shows as it was given. */
const SHOWN = [
  ["conn-limit", "maxconns"],
  ["threads", "num_threads"],
  ["max-reqs-per-event", "reqs_per_event"],
  ["idle-timeout", "idle_timeout"],
  ["slab-min-size", "chunk_size"],
] as const;

/** Logs in, stores and reads by the binary protocol. */
async function playBinary({ given }: ConfiguredServer, client: Client): Promise<void> {
  if (given.has("auth-file")) await binary(client, saslLogin("ann", "nna"), 0);
  const extras = "\0\0\0\x05\0\0\0\0";
  await binary(client, packetText({ opcode: 0x01, key: "item:kept", extras, value: "kept" }), 0);
  assertEquals(await readBinary(client), "\0\0\0\x05kept");
}

async function readBinary(client: Client): Promise<string> {
  return await binary(
    client,
    packetText({ opcode: 0x00, key: "item:kept", extras: "", value: "" }),
    0,
  );
}

/** @returns The body of the reply. */
async function binary(client: Client, request: string, expected: number): Promise<string> {
  await client.send(request);
  const header = await client.take(24);
  const length = Array.from(header.slice(8, 12)).reduce(
    (sum, byte) => sum * 256 + byte.charCodeAt(0),
    0,
  );
  const [reply] = binaryReplies(header + await client.take(length));
  assertEquals(reply!.status, expected, reply!.body);
  return reply!.body;
}

/** Reads the item that the script has stored. */
async function readKept(setting: ConfiguredServer, client: Client): Promise<void> {
  if (setting.isBinary) assertEquals((await readBinary(client)).slice(4), "kept");
  else await client.ask("get item:kept\r\n", "VALUE item:kept 1 4\r\nkept\r\nEND\r\n");
}

/** Tries the other ports. */
async function playPorts(setting: ConfiguredServer): Promise<void> {
  const { given } = setting;
  if (given.has("admin") || given.has("metrics")) {
    // An origin that follows the log empties its cache at first.
    await until(async () => (await setting.fetchAdmin("health"))[0] === 200);
    const [, metrics] = await setting.fetchAdmin("metrics");
    assertMatch(metrics, /^leased_\w+ /m);
  }
  if (given.has("counter-port")) {
    using client = await setting.server.connect(setting.counterPort);
    await client.send(noop());
    assertEquals((await client.take(12)).length, 12);
  }
  if (given.has("udp-port") && !given.has("unix-socket") && !setting.isBinary) {
    using udp = new UdpClient(setting.udpPort);
    await udp.send(1, "get item:kept\r\n");
    assertEquals(await udp.receive(), [1, "VALUE item:kept 1 4\r\nkept\r\nEND\r\n"]);
  }
}

async function stop(setting: ConfiguredServer): Promise<void> {
  const { stderr } = await setting.server.stop();
  const bad = stderr.split("\n").filter((line) =>
    /^\S+ (?:error|fatal): |"level":"(?:error|fatal)"|check failed/.test(line)
  );
  assertEquals(bad, []);
  assertMatch(stderr, /store check passed/);
}

/** Starts the server of a configuration, plays, and stops it. */
async function tryOut(
  configuration: Configuration,
  files: SharedFiles,
  expected: Expected,
): Promise<void> {
  const { given } = configuration;
  await using setting = await ConfiguredServer.start(configuration, files);
  {
    using client = await setting.connect();
    if (setting.isBinary) await playBinary(setting, client);
    else await playText(configuration, client, expected);
    await playPorts(setting);
    setting.server.signal("SIGHUP");
    await readKept(setting, client);
  }
  await stop(setting);
  if (!given.has("snapshot") && !given.has("memory-file")) return;
  await setting.restart();
  {
    using client = await setting.connect();
    if (setting.isBinary && given.has("auth-file")) {
      await binary(client, saslLogin("ann", "nna"), 0);
    }
    await readKept(setting, client);
  }
  await stop(setting);
}

/** Files and replies that the tests of this file share. The first test makes them. */
let shared: Promise<{ files: SharedFiles; expected: Expected }> | null = null;

async function makeShared(): Promise<{ files: SharedFiles; expected: Expected }> {
  const files = new SharedFiles();
  return { files, expected: await defaultReplies(files) };
}

Deno.test.afterAll(async () => {
  (await shared?.catch(() => null))?.files[Symbol.dispose]();
});

function needsNative({ given }: Configuration): boolean {
  const natives = ROLE_ROWS.filter(([, roles]) => roles === "native").map(([name]) => name);
  return given.get("io") === "native" || natives.some((name) => given.has(name));
}

const SEED = drawSeed();

for (
  const [index, configuration] of coveringConfigurations(roundsOf(COUNT), randomFrom(SEED))
    .entries()
) {
  Deno.test({
    name: `configuration ${
      index + 1
    }, ${configuration.role}: plays a script and stops without an error`,
    ...needsNative(configuration) ? needs("native", TRANSPORTS.includes("native")) : {},
    fn: async () => {
      await withSeed(SEED, async () => {
        const { files, expected } = await (shared ??= makeShared());
        try {
          await tryOut(configuration, files, expected);
        } catch (error) {
          if (error instanceof Error) {
            error.message += `\nleased ${wordsOf(configuration.given).join(" ")}`;
          }
          throw error;
        }
      });
    },
  });
}
