import { Client, residentKib, type ServerProcess } from "../support/servers/server_process.ts";

/** What a server holds at a moment. */
export interface Gauges {
  readonly residentMib: number;
  readonly descriptors: number;
  readonly threads: number;
  readonly evictions: number;
  readonly connections: number;
}

/** @param port Of plain TCP. */
export async function gaugesOf({ pid }: ServerProcess, port: number): Promise<Gauges> {
  const stats = await statsOf(port);
  return {
    residentMib: Math.round(residentKib(pid) / 1024),
    descriptors: [...Deno.readDirSync(`/proc/${pid}/fd`)].length,
    threads: [...Deno.readDirSync(`/proc/${pid}/task`)].length,
    evictions: stats.get("evictions")!,
    connections: stats.get("curr_connections")!,
  };
}

async function statsOf(port: number): Promise<Map<string, number>> {
  using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  await client.send("stats\r\n");
  const text = await client.until("END\r\n");
  return new Map(
    [...text.matchAll(/^STAT (\S+) (\d+)\r$/gm)].map(([, name, value]) => [name!, Number(value)]),
  );
}
