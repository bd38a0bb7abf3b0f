import { splitSubcommand } from "./lib/cli/subcommand.ts";
import { listenToSignals } from "./lib/signals.ts";

const { subcommand, rest } = splitSubcommand(Deno.args);
/** `leased proxy` is a name for a server with a database, with a port and a file of its own. */
const PROXY = ["--port", "11311", "--db", "sqlite:leased.db"];
const isProxy = subcommand === "proxy";
const isInit = isProxy && rest[0] === "init";
// Before the other modules are loaded. Signals end the other subcommands.
if (subcommand === "" || isProxy) listenToSignals();

switch (subcommand) {
  case "passwd":
    Deno.exit(await (await import("./lib/cli/passwd.ts")).runPasswd(rest));
    break;
  case "man":
  case "completion":
    Deno.exit((await import("./lib/cli/manual.ts")).runManual(subcommand, rest));
    break;
  case "top":
    Deno.exit(await (await import("./lib/operator/top/run.ts")).runTop(rest));
    break;
  case "doctor":
    Deno.exit(await (await import("./lib/operator/doctor/run.ts")).runDoctor(rest));
    break;
}

const { readProcessInfo } = await import("./lib/process_info.ts");
const { ExitCode, refuseUsage } = await import("./lib/cli/exit.ts");
const processInfo = readProcessInfo();
const argv = isProxy ? [...PROXY, ...rest] : rest;
const command = isInit
  ? (await import("./lib/rows/init.ts")).readInitCommand(rest.slice(1), processInfo)
  : subcommand === "views"
  ? (await import("./lib/rows/views_check.ts")).readViewsCommand(rest, processInfo)
  : subcommand === "audit"
  ? (await import("./lib/rows/audit/options.ts")).readAuditCommand(rest, processInfo)
  : (await import("./lib/cli/command.ts")).readCommand(argv, processInfo);
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
    const { runAudit } = await import("./lib/rows/audit/run.ts");
    Deno.exit(await runAudit(command.options));
    break;
  }
  case "check": {
    const { checkViews } = await import("./lib/rows/views_check.ts");
    Deno.exit(await checkViews(command.options));
    break;
  }
  case "init": {
    const { makeTables } = await import("./lib/rows/init.ts");
    Deno.exit(await makeTables(command.options, command.logFormat));
    break;
  }
  case "serve": {
    const { serve } = await import("./lib/server/boot.ts");
    Deno.exit(await serve(command.options, argv));
  }
}
