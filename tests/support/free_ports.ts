/**
 * Below the range from which Linux takes ports for connections and for servers that ask for any: what is free here
 * stays free until the server that gets it has started.
 */
const PORTS_START = 12_000;
const BLOCK_LENGTH = 50;
const BLOCKS = 400;

/**
 * The first port of a block that belongs to this thread: it listens there as long as it lives. Without blocks, servers
 * of two tests could start on one port at once, where the portable transport shares it.
 */
const block = takeBlock();
let given = 0;

function takeBlock(): number {
  const first = Math.floor(Math.random() * BLOCKS);
  for (let index = 0; index < BLOCKS; index++) {
    const start = PORTS_START + (first + index) % BLOCKS * BLOCK_LENGTH;
    if (listenAt("127.0.0.1", start) !== undefined) return start;
  }
  throw new Error(`no block of ports is free from ${PORTS_START} on`);
}

/** Returns different TCP ports that nothing uses at this address; at most 49. */
export function freePorts(count: number, hostname = "127.0.0.1"): number[] {
  const ports: number[] = [];
  for (let tried = 1; tried < BLOCK_LENGTH && ports.length < count; tried++) {
    given = given % (BLOCK_LENGTH - 1) + 1;
    const listener = listenAt(hostname, block + given);
    if (listener === undefined) continue;
    listener.close();
    ports.push(block + given);
  }
  if (ports.length === count) return ports;
  throw new Error(`${count} free ports at ${hostname}: the block at ${block} has ${ports.length}`);
}

/** Returns a TCP port of 127.0.0.1 that nothing uses. */
export function freePort(): number {
  return freePorts(1)[0]!;
}

/** Returns a listener, or undefined if the port is in use. */
function listenAt(hostname: string, port: number): Deno.Listener | undefined {
  try {
    return Deno.listen({ hostname, port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return undefined;
    throw error;
  }
}
