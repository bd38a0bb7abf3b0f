/**
 * Below the range from which Linux takes ports for connections and for servers that ask for any: what is free here
 * stays free until the server that gets it has started.
 */
const PORTS_START = 12_000;
const PORTS_COUNT = 20_000;

/** Returns different TCP ports that nothing uses at this address. */
export function freePorts(count: number, hostname = "127.0.0.1"): number[] {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = PORTS_START + Math.floor(Math.random() * PORTS_COUNT);
    if (isFree(hostname, port)) ports.add(port);
  }
  return [...ports];
}

/** Returns a TCP port of 127.0.0.1 that nothing uses. */
export function freePort(): number {
  return freePorts(1)[0]!;
}

function isFree(hostname: string, port: number): boolean {
  try {
    Deno.listen({ hostname, port }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return false;
    throw error;
  }
}
