import v8 from "node:v8";
import vm from "node:vm";

v8.setFlagsFromString("--expose-gc");
const collectGarbage: () => void = vm.runInNewContext("gc");

let made = 0;

/**
 * Notes that a store is made. Now and then frees those that nothing refers to: shared memory does not trigger the
 * engine's own collections.
 *
 * @param perCollection Stores between two of them.
 */
export function noteStore(perCollection: number): void {
  if (++made % perCollection === 0) collectGarbage();
}
