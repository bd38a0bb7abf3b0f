import { UserFileError } from "../auth/user_file.ts";
import { ExitCode, refuseUsage } from "../cli/exit.ts";
import type { ServerOptions } from "../cli/options.ts";
import { logProcess } from "../log.ts";
import { DescriptorError } from "../net/descriptors.ts";
import { IoUringError, ListenError, TlsError } from "../net/transport.ts";
import { StateError } from "../journal/state_folder.ts";
import { listenFailure } from "./listen_failure.ts";
import { ThreadError } from "./threads.ts";

/** Logs why the server cannot start. @returns The exit status. @throws An error that is not one of the start. */
export function logStartFailure(error: unknown, options: ServerOptions): ExitCode {
  if (error instanceof ListenError) {
    const { message, fields } = listenFailure(error, options);
    logProcess("fatal", "cannot_listen", message, fields);
    return ExitCode.OS_ERROR;
  }
  if (error instanceof ThreadError) {
    logProcess("fatal", "cannot_start", `cannot start a thread: ${error.message}`, {
      reason: error.message,
    });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof TlsError) {
    const { message } = error;
    logProcess("fatal", "cannot_start", `-Z (--enable-ssl): ${message}`, { reason: message });
    return ExitCode.USAGE;
  }
  if (error instanceof DescriptorError) {
    logProcess("fatal", "cannot_start", error.message, { needed: error.needed });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof IoUringError) {
    const message = `cannot use io_uring: ${error.message}; --io-uring=auto serves without it`;
    logProcess("fatal", "cannot_start", message, { reason: error.message });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof StateError || error instanceof UserFileError) {
    logProcess("fatal", "cannot_start", error.message, { reason: error.message });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof RangeError) return refuseUsage([error.message], options.logFormat);
  throw error;
}
