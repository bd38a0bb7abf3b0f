import { readCommand } from "./lib/cli/command.ts";
import { ExitCode, refuseUsage } from "./lib/cli/exit.ts";
import { serve } from "./lib/server/boot.ts";
import { readProcessInfo } from "./lib/process_info.ts";

const command = readCommand(Deno.args, readProcessInfo());
switch (command.kind) {
  case "print":
    // deno-lint-ignore no-console
    console.log(command.text);
    Deno.exit(ExitCode.OK);
    break;
  case "refuse":
    Deno.exit(refuseUsage(command.errors, command.logFormat));
    break;
  case "serve":
    Deno.exit(await serve(command.options, Deno.args));
}
