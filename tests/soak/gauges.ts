import { Client, residentKib, type ServerProcess } from "../support/servers/server_process.ts";

/** What a server holds at a moment. */
export interface Gauges {
  readonly residentMib: number;
  readonly descriptors: number;
  readonly threads: number;
  readonly evictions: number;
  readonly connections: number;
}

/** What a server's meter has counted since its start. */
export interface Metered {
  readonly compared: number;
  readonly wrong: number;
  /** Without a verdict. */
  readonly others: number;
}

/** @param port Of plain TCP. */
export async function gaugesOf({ pid }: ServerProcess, port: number): Promise<Gauges> {
  const stats = await statsOf(port, "stats");
  return {
    residentMib: Math.round(residentKib(pid) / 1024),
    descriptors: [...Deno.readDirSync(`/proc/${pid}/fd`)].length,
    threads: [...Deno.readDirSync(`/proc/${pid}/task`)].length,
    evictions: stats.get("evictions")!,
    connections: stats.get("curr_connections")!,
  };
}

/** @param port Of plain TCP, of an origin or a node with a meter. */
export async function meteredOf(port: number): Promise<Metered> {
  const stats = await statsOf(port, "stats rows");
  const sum = (...names: string[]): number =>
    names.reduce((all, name) => all + stats.get(`verified_${name}`)!, 0);
  return {
    compared: sum("same", "lagging", "stale", "phantom"),
    wrong: sum("stale", "phantom"),
    others: sum("unclear", "failed", "shed"),
  };
}

async function statsOf(port: number, command: string): Promise<Map<string, number>> {
  using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  await client.send(`${command}\r\n`);
  const text = await client.until("END\r\n");
  return new Map(
    [...text.matchAll(/^STAT (\S+) (\d+)\r$/gm)].map(([, name, value]) => [name!, Number(value)]),
  );
}
