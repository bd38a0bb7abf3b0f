/**
 * TLS handshakes: memcached and leased in alternating rounds. CPU per handshake, handshakes a second, and
 * ours ÷ theirs.
 */
import { Certificates, tlsArguments } from "../../support/servers/certificates.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { readOptions } from "../options.ts";
import {
  type BenchServer,
  cpuNanoseconds,
  DEBIAN_MEMCACHED,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "../processes.ts";
import { median } from "../rows.ts";
import { TlsClients } from "./clients.ts";
import { shakeHandsAtOnce } from "./handshake_batch.ts";

const KEYS = ["ec", "rsa"] as const;
const KEY_OPTIONS = {
  ec: ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
  rsa: ["rsa:2048"],
} as const;

interface Sample {
  readonly cpuMicroseconds: number;
  readonly perSecond: number;
}

/** Makes at least `count` handshakes, `inFlight` at a time. */
function shakeHands(server: BenchServer, count: number, inFlight: number): Sample {
  const tls = new TlsClients();
  const startedMs = performance.now();
  const cpuBefore = cpuNanoseconds(server.pid);
  let done = 0;
  for (; done < count; done += inFlight) shakeHandsAtOnce(tls, server.port, inFlight);
  // What the server does when it notices the last closes belongs to the handshakes too.
  const cpuNs = cpuNanoseconds(server.pid) - cpuBefore;
  const seconds = (performance.now() - startedMs) / 1000;
  tls.close();
  return { cpuMicroseconds: cpuNs / 1000 / done, perSecond: done / seconds };
}

export async function main(args: readonly string[]): Promise<void> {
  const { rounds, count, flight, io, memcached, port, key } = readOptions(args, {
    rounds: 5,
    memcached: [DEBIAN_MEMCACHED],
    port: 21390,
    /** Handshakes of a round, and at the same time. */
    count: 640,
    flight: 32,
    io: "native",
    key: KEYS as readonly string[],
  }, { io: TRANSPORTS, key: KEYS });
  await pinGenerator();
  using certificates = new Certificates();
  for (const [index, kind] of key.entries()) {
    const certificate = certificates.make(kind, KEY_OPTIONS[kind as typeof KEYS[number]]);
    const args = tlsArguments(certificate);
    const first = port + 10 * index;
    const reading = io === "portable"
      ? [`--allow-read=${certificate.certPath},${certificate.keyPath}`]
      : [];
    const servers = [await startLeased(first, 1, io, args, reading)];
    for (const path of memcached) {
      servers.push(await startMemcached(path, first + servers.length, 1, args));
    }
    const samples: Sample[][] = servers.map(() => []);
    for (const server of servers) shakeHands(server, count, flight);
    for (let round = 0; round < rounds; round++) {
      servers.forEach((server, at) => samples[at]!.push(shakeHands(server, count, flight)));
    }
    say(`\n${kind}: ${count} handshakes, ${flight} at a time`);
    servers.forEach((server, at) => {
      const ratios = samples[at]!.map(({ cpuMicroseconds }, round) =>
        samples[0]![round]!.cpuMicroseconds / cpuMicroseconds
      );
      const of = (pick: (sample: Sample) => number): number => median(samples[at]!.map(pick));
      say(
        `  ${server.name.slice(0, 22).padEnd(22)} ${of((one) => one.cpuMicroseconds).toFixed(1)} ` +
          `µs CPU/handshake, ${Math.round(of((one) => one.perSecond))}/s` +
          (at === 0 ? "" : `, ours ÷ theirs ${median(ratios).toFixed(3)} ` +
            `(${Math.min(...ratios).toFixed(3)}..${Math.max(...ratios).toFixed(3)})`),
      );
    });
    for (const server of servers) await server.stop();
  }
}
