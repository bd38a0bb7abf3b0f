import { Certificates } from "../support/servers/certificates.ts";
import type { IoWay } from "../support/servers/server_process.ts";
import { startLeased } from "../support/servers/leased.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { REAL_SECONDS_MAX } from "../support/sessions/socket_side.ts";
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
        for (const transcriptCase of playable) {
          await leased.settle();
          for (const request of ["flush_all", "quarantine off", "token drop_all unsafe"]) {
            await leased.ask(`${request}\r\n`, "\r\n");
          }
          await t.step(transcriptCase.name, () => play(leased, transcriptCase));
        }
      });
  }
}
