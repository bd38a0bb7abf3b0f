import { IoUringError } from "../transport.ts";
import { openRing } from "./io_uring.ts";
import { cString, Libc } from "./libc.ts";

/** The facts that the doctor reads by the C library: Deno gives files of /proc and /sys only to --allow-all. */
interface SystemProbe {
  /** Why this process cannot use io_uring; "": it can. */
  readonly ioUringFault: string;
  /** Returns the text of a file, or null if it cannot be read. */
  read(path: string): string | null;
}

const O_RDONLY_CLOEXEC = 0o2000000;
const BUFFER_BYTES = 64 * 1024;

/** @throws When the C library cannot be called. */
export function probeSystem(): SystemProbe {
  const libc = new Libc();
  return { ioUringFault: ioUringFault(libc), read: (path) => readFile(libc, path) };
}

function ioUringFault(libc: Libc): string {
  try {
    libc.calls.close(openRing(libc, 1).fd);
    return "";
  } catch (error) {
    if (!(error instanceof IoUringError)) throw error;
    return error.message;
  }
}

/** Returns at most 64 KiB of a file. */
function readFile({ calls }: Libc, path: string): string | null {
  const fd = calls.open(cString(path), O_RDONLY_CLOEXEC);
  if (fd < 0) return null;
  const bytes = new Uint8Array(BUFFER_BYTES);
  let length = 0;
  for (;;) {
    const read = calls.read(fd, bytes.subarray(length), bytes.length - length);
    if (read <= 0) break;
    length += read;
  }
  calls.close(fd);
  return new TextDecoder().decode(bytes.subarray(0, length));
}
