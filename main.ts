import type { ExitCode } from "./lib/cli/exit.ts";
import { splitSubcommand, type SubcommandName } from "./lib/cli/subcommand.ts";
import { listenToSignals } from "./lib/process/signals.ts";

/** `leased rows` is a name for a server with a database, with a port and a file of its own. */
const ROWS = ["--port", "11311", "--db", "sqlite:leased.db"];

type Run = (argv: readonly string[]) => ExitCode | Promise<ExitCode>;

/** Each loads its modules when it runs. */
const RUN: Readonly<Record<SubcommandName, Run>> = {
  "": serve,
  rows: async (argv) =>
    argv[0] === "init"
      ? (await import("./lib/operator/init.ts")).runInit(argv.slice(1))
      : serve([...ROWS, ...argv]),
  audit: async (argv) => (await import("./lib/operator/audit/run.ts")).runAudit(argv),
  views: async (argv) =>
    argv[0] === "suggest"
      ? (await import("./lib/operator/suggest/run.ts")).runSuggest(argv.slice(1))
      : (await import("./lib/operator/views_check.ts")).runViews(argv),
  top: async (argv) => (await import("./lib/operator/top/run.ts")).runTop(argv),
  doctor: async (argv) => (await import("./lib/operator/doctor/run.ts")).runDoctor(argv),
  passwd: async (argv) => (await import("./lib/cli/passwd.ts")).runPasswd(argv),
  man: async () => (await import("./lib/cli/manual.ts")).printManual(),
  completion: async (argv) => (await import("./lib/cli/manual.ts")).printCompletion(argv),
};

async function serve(argv: readonly string[]): Promise<ExitCode> {
  const { obey } = await import("./lib/cli/command_line.ts");
  const { readCommand } = await import("./lib/cli/command.ts");
  const { readProcessInfo } = await import("./lib/process/info.ts");
  return await obey(readCommand(argv, readProcessInfo()), async (options) => {
    const { serve } = await import("./lib/server/boot.ts");
    return await serve(options, argv);
  });
}

const { subcommand, rest } = splitSubcommand(Deno.args);
// Before the other modules are loaded: a signal ends a start at once. Signals end the other subcommands, too.
if (subcommand === "" || subcommand === "rows") listenToSignals();
Deno.exit(await RUN[subcommand](rest));
