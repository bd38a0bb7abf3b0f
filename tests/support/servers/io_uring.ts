import { errnoName, Libc, libcAvailable } from "../../../lib/net/native/libc.ts";

const IO_URING_SETUP = 425;
/** The server's needs of the kernel: io_uring_setup(2) with IORING_SETUP_SUBMIT_ALL. */
const FLAGS = 1 << 7;
const PARAM_WORDS = 30;
const PARAM_FLAGS = 2;

/**
 * Why this system has no io_uring; "": it has. The kernel is asked, not the server, whose faults would otherwise let
 * the tests be ignored.
 */
export const IO_URING_MISSING: string = libcAvailable() ? missing() : "no C library";

function missing(): string {
  using libc = new Libc();
  const params = new Uint32Array(PARAM_WORDS);
  params[PARAM_FLAGS] = FLAGS;
  const fd = libc.calls.io_uring_setup(IO_URING_SETUP, 1, params);
  if (fd < 0) return errnoName(libc.errno);
  libc.calls.close(fd);
  return "";
}
