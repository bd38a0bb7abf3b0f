import type { Settings } from "../../protocol/settings.ts";
import {
  type ServerHooks,
  type SharedState,
  ThreadContext,
} from "../../protocol/thread_context.ts";

/** A store, and the settings of its server: what a further thread needs. */
export interface Shared {
  readonly shared: SharedState;
  readonly settings: Settings;
}

/** Makes a thread of a server. @param hooks The hooks of the process; by default nothing happens. */
export function joinThread(
  { shared, settings }: Shared,
  threadIndex = 0,
  hooks: Partial<ServerHooks> = {},
): ThreadContext {
  const all = {
    shutdown: () => {},
    processState: () => ({ userMicroseconds: 0, systemMicroseconds: 0, accepting: true }),
    tokensDropped: () => {},
    authenticate: () => {},
    ...hooks,
  };
  return new ThreadContext(shared, settings, all, threadIndex);
}
