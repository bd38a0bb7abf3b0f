// `deno run -A tests/chaos/seek.ts rows|views SQLite|PostgreSQL seconds`: disturbs an origin and its nodes until a
// meter or a canary finds a wrong value, and prints the line that tells of it. Status 1: found; 0: nothing was found in
// time.
import { createDatabase, type DatabaseKind, sharedPostgres } from "../support/servers/databases.ts";
import { drawSeed } from "../support/seed.ts";
import { NodesChaos } from "./nodes.ts";
import { ViewsChaos } from "./views.ts";

const [what, kind, seconds] = Deno.args;
const database = await createDatabase(kind as DatabaseKind);
const Chaos = what === "views" ? ViewsChaos : NodesChaos;
const found = await new Chaos(database, drawSeed()).seek(Number(seconds) * 1000);
// deno-lint-ignore no-console -- the result
console.log(found ?? "nothing was found");
await database[Symbol.asyncDispose]();
if (kind === "PostgreSQL") await (await sharedPostgres()).stop();
Deno.exit(found === null ? 0 : 1);
