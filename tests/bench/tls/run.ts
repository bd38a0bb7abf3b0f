/** TLS beside memcached: what handshakes cost, and how long plain clients wait beside clients that misuse TLS. */
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { readOptions } from "../options.ts";
import { DEBIAN_MEMCACHED } from "../processes.ts";
import { handshakes, KEYS } from "./handshakes.ts";
import { MISUSES } from "./misuses.ts";
import { neighbours } from "./neighbours.ts";

const PARTS = ["handshakes", "neighbours"];

export async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args, {
    parts: PARTS,
    rounds: 5,
    memcached: [DEBIAN_MEMCACHED],
    port: 21390,
    count: 640,
    flight: 32,
    io: "native",
    key: KEYS as readonly string[],
    rate: 2000,
    seconds: 3,
    only: MISUSES as readonly string[],
  }, { parts: PARTS, io: TRANSPORTS, key: KEYS, only: MISUSES });
  if (options.parts.includes("handshakes")) await handshakes(options);
  if (options.parts.includes("neighbours")) await neighbours(options);
}
