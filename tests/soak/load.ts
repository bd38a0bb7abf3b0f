// A process of steady load on servers of a soak: load.ts <requests/s> <port>:<way> ...
// A way is `rows`, whose keys n0, n1 … have been written, or `items`, which are set and read. Values say which key they
// belong to. Prints a line of JSON every second: a Measured.
import { Client } from "../support/servers/server_process.ts";
import { LOAD_KEYS, loadValue, type Measured } from "./load_values.ts";

/** Requests of a connection between two pauses. */
const BATCH = 8;
/** One item of so many is set, the others are read. */
const SET_EVERY = 4;

const [perSecond, ...places] = Deno.args;
const pauseMs = 1000 * BATCH * places.length / Number(perSecond);
let timesMs: number[] = [];
let measured = { requests: 0, hits: 0, errors: 0, wrong: 0 };

function random(count: number): number {
  return Math.floor(Math.random() * count);
}

async function ask(client: Client, request: string, end: string): Promise<string> {
  const beginMs = performance.now();
  await client.send(request);
  const line = await client.until("\r\n");
  const isError = /^(?:SERVER_|CLIENT_)?ERROR/.test(line);
  const reply = isError || line.endsWith(end) ? line : line + await client.until(end);
  timesMs.push(performance.now() - beginMs);
  measured.requests++;
  if (isError) measured.errors++;
  return reply;
}

async function read(client: Client, key: string): Promise<void> {
  const reply = await ask(client, `get ${key}\r\n`, "END\r\n");
  if (!reply.startsWith("VALUE")) return;
  measured.hits++;
  const value = /^VALUE \S+ \d+ \d+\r\n(.*)\r\nEND/.exec(reply)?.[1];
  if (value !== loadValue(key)) measured.wrong++;
}

async function request(client: Client, way: string): Promise<void> {
  if (way === "rows") return await read(client, `n${random(LOAD_KEYS)}`);
  const key = `i${random(LOAD_KEYS)}`;
  if (random(SET_EVERY) > 0) return await read(client, key);
  const value = loadValue(key);
  await ask(client, `set ${key} 0 0 ${value.length}\r\n${value}\r\n`, "\r\n");
}

async function load(place: string): Promise<void> {
  const [port, way] = place.split(":");
  for (;;) {
    try {
      using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port: Number(port) }));
      for (;;) {
        for (let count = 0; count < BATCH; count++) await request(client, way!);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

setInterval(() => {
  const sorted = timesMs.toSorted((one, other) => one - other);
  const at = (share: number): number => sorted[Math.floor(share * sorted.length)] ?? 0;
  const line: Measured = { ...measured, p50Ms: at(0.5), p99Ms: at(0.99) };
  // deno-lint-ignore no-console -- its output is its result
  console.log(JSON.stringify(line));
  timesMs = [];
  measured = { requests: 0, hits: 0, errors: 0, wrong: 0 };
}, 1000);
for (const place of places) void load(place);
