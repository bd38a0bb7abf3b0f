import { splitSubcommand } from "./lib/cli/subcommand.ts";
import { listenToSignals } from "./lib/signals.ts";

const { subcommand, rest } = splitSubcommand(Deno.args);
const isServer = subcommand === "";
// Before the other modules are loaded. Signals end an audit.
if (isServer || subcommand === "proxy") listenToSignals();

if (subcommand === "passwd") {
  const { runPasswd } = await import("./lib/cli/passwd.ts");
  Deno.exit(await runPasswd(rest));
}

const { readProcessInfo } = await import("./lib/process_info.ts");
const { ExitCode, refuseUsage } = await import("./lib/cli/exit.ts");
const processInfo = readProcessInfo();
const command = isServer
  ? (await import("./lib/cli/command.ts")).readCommand(rest, processInfo)
  : subcommand === "proxy"
  ? (await import("./lib/proxy/options.ts")).readProxyCommand(rest, processInfo)
  : (await import("./lib/proxy/audit/options.ts")).readAuditCommand(rest, processInfo);
switch (command.kind) {
  case "print":
    // deno-lint-ignore no-console
    console.log(command.text);
    Deno.exit(ExitCode.OK);
    break;
  case "refuse":
    Deno.exit(refuseUsage(command.errors, command.logFormat));
    break;
  case "audit": {
    const { runAudit } = await import("./lib/proxy/audit/run.ts");
    Deno.exit(await runAudit(command.options));
    break;
  }
  case "init": {
    const { makeTables } = await import("./lib/proxy/serve.ts");
    Deno.exit(await makeTables(command.options));
    break;
  }
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
