import { replaceCalls } from "./replaced_calls.ts";

/** Lets io_uring_setup(2) fail with an error number, in every library that this thread opens until it is disposed. */
export function failingSetup(errno: number): Disposable {
  return replaceCalls<{ __errno_location: () => Deno.PointerObject }>(({ __errno_location }) => ({
    __errno_location,
    io_uring_setup: (): number => {
      new Int32Array(Deno.UnsafePointerView.getArrayBuffer(__errno_location(), 4))[0] = errno;
      return -1;
    },
  }));
}
