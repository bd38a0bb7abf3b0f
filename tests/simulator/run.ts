// Runs the system in virtual time: `deno task simulate [seeds]`. docs/internals/simulator.md explains what it prints.
import { mapped } from "./runtime/mapped.ts";

await using seeds = await mapped("tests/simulator/seeds.ts", Deno.args);
const { code } = await seeds.command.spawn().status;
Deno.exitCode = code;
