import { Certificates } from "../support/servers/certificates.ts";
import { type IoWay, until } from "../support/servers/server_process.ts";
import { startLeased, startOnUnixSocket, startOverUdp } from "../support/servers/leased.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX, type SocketSide } from "../support/sessions/socket_side.ts";
import type { TranscriptCase } from "../support/sessions/transcript.ts";
import type { UdpSide } from "../support/sessions/udp_side.ts";
import { SLICES } from "../support/sessions/slices.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

/** The same transcripts over a transport, each file to a server process of its own. */
export function testOverSockets(io: IoWay["io"]): void {
  for (const slice of SLICES) testSlice({ name: io, io }, slice);
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
): void {
  for (const { name, options, cases } of readTranscripts()) {
    const playable = cases.filter((one) => secondsOf(one) <= REAL_SECONDS_MAX);
    Deno.test(`${name} over sockets, ${way}${slice.title}`, { ignore: playable.length === 0 }, async (t): Promise<void> => {
        using certificates = new Certificates();
        const certificate = tls ? certificates.make("localhost") : undefined;
        await using leased = await startLeased(io, [...options, ...slice.options], certificate, ioUring);
        await playAll(leased, playable, t);
      });
  }
}

/** The transcripts without options over a Unix socket, to one server process. */
export function testOverUnix(io: IoWay["io"]): void {
  const start = (folder: string): Promise<SocketSide> => startOnUnixSocket(io, `${folder}/socket`);
  testTogether(`a Unix socket, ${io}`, () => true, start);
}

/** The same over UDP, a datagram for each request, a slice for each of its commands. */
export function testOverUdp(io: IoWay["io"]): void {
  testTogether(`UDP, ${io}`, isForUdp, () => startOverUdp(io, SLICES[1]!.options));
}

function testTogether(
  name: string,
  isPlayable: (file: string, transcriptCase: TranscriptCase) => boolean,
  start: (folder: string) => Promise<SocketSide | UdpSide>,
): void {
  Deno.test(`transcripts over ${name}`, async (t) => {
    const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
    await using leased = await start(folder);
    for (const { name, options, cases } of readTranscripts()) {
      if (options.length > 0) continue;
      const playable = cases.filter((one) =>
        secondsOf(one) <= REAL_SECONDS_MAX && isPlayable(name, one)
      );
      await t.step(name, (t) => playAll(leased, playable, t));
    }
    Deno.removeSync(folder, { recursive: true });
  });
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

function countsItems({ events }: TranscriptCase): boolean {
  return events.some((event) => event.kind === "stats" && event.deltas.has("curr_items"));
}

async function playAll(
  leased: SocketSide | UdpSide,
  cases: readonly TranscriptCase[],
  t: Deno.TestContext,
): Promise<void> {
  for (const transcriptCase of cases) {
    await leased.settle();
    for (const request of ["flush_all", "quarantine off", "token drop_all unsafe"]) {
      await leased.ask(`${request}\r\n`, "\r\n");
    }
    // Flushed items count until maintenance removes them.
    if (countsItems(transcriptCase)) {
      await until(async () => (await leased.stats()).get("curr_items") === 0);
    }
    await t.step(transcriptCase.name, () => play(leased, transcriptCase));
  }
}
