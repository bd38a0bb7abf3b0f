import type { Flows } from "../flows/flows.ts";
import type { RowCommands } from "./row_commands.ts";
import type { RowSource } from "../row_source.ts";
import type { StepRunner } from "./step_runner.ts";

/** One group is committed while others wait for nodes, or for a row that somebody else has locked. */
const GROUPS_MAX = 4;

/**
 * Returns the rows of a database, by the flows.
 *
 * @param hasNodes Whether deletions wait for nodes now.
 * @param stop `RowSource.stop`
 */
export function databaseSource(
  flows: Flows,
  runner: StepRunner,
  commands: RowCommands,
  hasNodes: () => boolean,
  stop: () => void,
): RowSource {
  return {
    get endText() {
      return flows.isDeposed ? flows.deposedText : null;
    },
    get groupsMax() {
      return runner.commitsAside || hasNodes() ? GROUPS_MAX : 1;
    },
    read: (keys) => runner.run(flows.read(keys)),
    isSlow: (key) => runner.views.find(key) !== null,
    refusalOf: (key) => runner.views.refusalOf(key),
    write: (group) => runner.run(flows.write(group)),
    command: (request, addWrite, signal) => commands.execute(request, addWrite, signal),
    stop,
  };
}
