// Kills many servers under load: deno task kills [kills] [servers at the same time].
import { IO_WAYS } from "../support/servers/server_process.ts";
import { type KillReport, killServers } from "./kills.ts";

await main(Number(Deno.args[0] ?? 2000), Number(Deno.args[1] ?? 4));

async function main(kills: number, parallel: number): Promise<void> {
  const seed = crypto.getRandomValues(new Uint32Array(1))[0]!;
  say(`seed ${seed}`);
  let done = 0;
  const progress = (): void => {
    if (++done % 100 === 0) say(`${done} kills`);
  };
  const share = Math.ceil(kills / parallel);
  const reports = await Promise.all(
    Array.from({ length: parallel }, async (_, index) => {
      const folder = await Deno.makeTempDir();
      const way = IO_WAYS[index % IO_WAYS.length]!;
      const report = await killServers({ way, folder, kills: share, seed: seed + index, progress });
      await Deno.remove(folder, { recursive: true });
      return report;
    }),
  );
  const sum = (count: (report: KillReport) => number): number =>
    reports.reduce((all, report) => all + count(report), 0);
  say(
    `${sum((report) => report.kills)} kills, ${sum((report) => report.stops)} clean stops: ` +
      `${sum((report) => report.promised)} tokens promised, none missing; ` +
      `${sum((report) => report.unpromised)} written and not promised, ` +
      `${sum((report) => report.returned)} back after their release; no id came twice`,
  );
}

function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}
