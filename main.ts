import { listenToSignals } from "./lib/signals.ts";

const isProxy = Deno.args[0] === "proxy";
// Before the other modules are loaded. The proxy listens to signals itself.
if (!isProxy) listenToSignals();

const { readProcessInfo } = await import("./lib/process_info.ts");
const { ExitCode, refuseUsage } = await import("./lib/cli/exit.ts");
const processInfo = readProcessInfo();
const command = isProxy
  ? (await import("./lib/proxy/options.ts")).readProxyCommand(Deno.args.slice(1), processInfo)
  : (await import("./lib/cli/command.ts")).readCommand(Deno.args, processInfo);
switch (command.kind) {
  case "print":
    // deno-lint-ignore no-console
    console.log(command.text);
    Deno.exit(ExitCode.OK);
    break;
  case "refuse":
    Deno.exit(refuseUsage(command.errors, command.logFormat));
    break;
  case "proxy": {
    const { serveProxy } = await import("./lib/proxy/serve.ts");
    Deno.exit(await serveProxy(command.options, processInfo.version));
    break;
  }
  case "serve": {
    const { serve } = await import("./lib/server/boot.ts");
    Deno.exit(await serve(command.options, Deno.args));
  }
}
