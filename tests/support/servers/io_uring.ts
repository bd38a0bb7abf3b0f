import { openRing } from "../../../lib/net/native/io_uring.ts";
import { Libc, libcAvailable } from "../../../lib/net/native/libc.ts";

/** Why this system has no io_uring; "": it has. */
export const IO_URING_MISSING: string = libcAvailable() ? missing() : "no C library";

function missing(): string {
  using libc = new Libc();
  try {
    libc.calls.close(openRing(libc, 1).fd);
    return "";
  } catch (error) {
    return String(error);
  }
}
