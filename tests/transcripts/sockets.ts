import { Certificates } from "../support/servers/certificates.ts";
import { type IoWay, until } from "../support/servers/server_process.ts";
import { startLeased, startOnUnixSocket, startOverUdp } from "../support/servers/leased.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX, type SocketSide } from "../support/sessions/socket_side.ts";
import type { Transcript, TranscriptCase } from "../support/sessions/transcript.ts";
import type { UdpSide } from "../support/sessions/udp_side.ts";
import { SLICES } from "../support/sessions/slices.ts";
import { randomFrom } from "../support/random.ts";
import { sampleOf } from "../support/rounds.ts";
import { drawSeed } from "../support/seed.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

/**
 * Of so many transcripts one is played in a way beside the usual one of a transport: conversations in process play all.
 * Whole ones, since a case may count what those before it have left.
 */
const TRANSCRIPTS_A_SAMPLE = 3;

/** The same transcripts over a transport, those with the same options to one server process. */
export function testOverSockets(io: IoWay["io"]): void {
  const [usual, ...others] = SLICES;
  testSlice({ name: io, io }, usual!, false, 1);
  for (const slice of others) testSlice({ name: io, io }, slice);
}

/** The same in one way of a transport, with slices of the usual size. */
export function testOverWay(way: IoWay): void {
  testSlice(way, SLICES[0]!);
}

/** The same over TLS. */
export function testOverTls(io: IoWay["io"]): void {
  testSlice({ name: io, io }, { ...SLICES[0]!, title: " with TLS" }, true);
}

function testSlice(
  { name: way, io, ioUring }: IoWay,
  slice: Pick<typeof SLICES[number], "title" | "options">,
  tls = false,
  transcriptsASample = TRANSCRIPTS_A_SAMPLE,
): void {
  for (const { options, transcripts } of PLAYABLE) {
    const name = ["transcripts", ...options].join(" ");
    Deno.test(`${name} over sockets, ${way}${slice.title}`, async (t): Promise<void> => {
      using certificates = new Certificates();
      const certificate = tls ? certificates.make("localhost") : undefined;
      await using leased = await startLeased(io, [...options, ...slice.options], certificate, ioUring);
      await playAll(leased, tls ? onlyOverTls(transcripts) : transcripts, t, transcriptsASample);
    });
  }
}

/** The transcripts without options over a Unix socket, to one server process. */
export function testOverUnix(io: IoWay["io"]): void {
  Deno.test(`transcripts over a Unix socket, ${io}`, async (t) => {
    const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
    await using leased = await startOnUnixSocket(io, `${folder}/socket`);
    await playAll(leased, WITHOUT_OPTIONS, t);
    Deno.removeSync(folder, { recursive: true });
  });
}

/** The same over UDP, a datagram for each request, a slice for each of its commands. */
export function testOverUdp(io: IoWay["io"]): void {
  const transcripts = WITHOUT_OPTIONS.map(({ name, cases }) => ({
    name,
    cases: cases.filter((one) => isForUdp(name, one)),
  }));
  Deno.test(`transcripts over UDP, ${io}`, async (t) => {
    await using leased = await startOverUdp(io, SLICES[1]!.options);
    await playAll(leased, transcripts, t);
  });
}

type Cases = Pick<Transcript, "name" | "cases">;

/** The transcripts with the same options, without cases that need time to pass. */
interface Group {
  readonly options: readonly string[];
  readonly transcripts: Cases[];
}

const PLAYABLE: readonly Group[] = groupByOptions(readTranscripts());
const WITHOUT_OPTIONS = PLAYABLE.find(({ options }) => options.length === 0)!.transcripts;

function groupByOptions(transcripts: readonly Transcript[]): Group[] {
  const groups = new Map<string, Group>();
  for (const { name, options, cases } of transcripts) {
    const playable = cases.filter((one) => secondsOf(one) <= REAL_SECONDS_MAX);
    if (playable.length === 0) continue;
    const group = groups.get(options.join(" ")) ?? { options, transcripts: [] };
    groups.set(options.join(" "), group);
    group.transcripts.push({ name, cases: playable });
  }
  return [...groups.values()];
}

/** Claims belong to connections, and dumps are not available over UDP. */
const NOT_FOR_UDP = /^(?:leases|locks|tokens|meta_leases|tuning)/;
/** Of the requests in one datagram. */
const DATAGRAM_BYTES_MAX = 60_000;

/** Whether a case needs no connection, and each of its requests fits a datagram. */
function isForUdp(file: string, { events }: TranscriptCase): boolean {
  if (NOT_FOR_UDP.test(file)) return false;
  return events.every((event) => {
    if (event.kind === "disconnect" || event.kind === "closed") return false;
    if (event.kind !== "send") return true;
    const text = event.text.map((part) => typeof part === "string" ? part : "0").join("");
    const isWhole = text.startsWith("\x80") || text.endsWith("\n");
    return isWhole && text !== "\n" && text.length <= DATAGRAM_BYTES_MAX;
  });
}

/** Without the cases that say what a server without TLS answers. */
function onlyOverTls(transcripts: readonly Cases[]): Cases[] {
  return transcripts.map(({ name, cases }) => ({
    name,
    cases: cases.filter((one) => !one.name.includes("without TLS")),
  }));
}

function countsItems({ events }: TranscriptCase): boolean {
  return events.some((event) => event.kind === "stats" && event.deltas.has("curr_items"));
}

async function playAll(
  leased: SocketSide | UdpSide,
  transcripts: readonly Cases[],
  t: Deno.TestContext,
  transcriptsASample = TRANSCRIPTS_A_SAMPLE,
): Promise<void> {
  // Which one failed, its step says; LEASED_TESTS_EFFORT=3 plays all.
  const random = randomFrom(drawSeed());
  for (const { name, cases } of sampleOf(transcripts, transcriptsASample, random)) {
    await t.step(name, async (t) => {
      for (const transcriptCase of cases) {
        await empty(leased);
        // Flushed items count until maintenance removes them.
        if (countsItems(transcriptCase)) {
          await until(async () => (await leased.stats()).get("curr_items") === 0);
        }
        await t.step(transcriptCase.name, () => play(leased, transcriptCase));
      }
    });
  }
}

/** Waits until the connections of the case before have ended, and has the server forget what it has left. */
async function empty(leased: SocketSide | UdpSide): Promise<void> {
  await leased.settle();
  const control = await leased.control();
  for (const request of ["flush_all", "quarantine off", "token drop_all unsafe"]) {
    await control.ask(`${request}\r\n`, "\r\n");
  }
}
