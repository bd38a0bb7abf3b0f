import { readCommand } from "./lib/cli/command.ts";
import { ExitCode, refuseUsage } from "./lib/cli/exit.ts";
import { readProcessInfo } from "./lib/process_info.ts";
import { readProxyCommand } from "./lib/proxy/options.ts";
import { serveProxy } from "./lib/proxy/serve.ts";
import { serve } from "./lib/server/boot.ts";

const processInfo = readProcessInfo();
const isProxy = Deno.args[0] === "proxy";
const command = isProxy
  ? readProxyCommand(Deno.args.slice(1), processInfo)
  : readCommand(Deno.args, processInfo);
switch (command.kind) {
  case "print":
    // deno-lint-ignore no-console
    console.log(command.text);
    Deno.exit(ExitCode.OK);
    break;
  case "refuse":
    Deno.exit(refuseUsage(command.errors, command.logFormat));
    break;
  case "proxy":
    Deno.exit(await serveProxy(command.options, processInfo.version));
    break;
  case "serve":
    Deno.exit(await serve(command.options, Deno.args));
}
