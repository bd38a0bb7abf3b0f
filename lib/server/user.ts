/** Returns whether the process has the rights of root. False where no permission allows to find out. */
export function isRoot(): boolean {
  if (Deno.permissions.querySync({ name: "sys", kind: "uid" }).state === "granted") {
    return Deno.uid() === 0;
  }
  const mayCallC = Deno.permissions.querySync({ name: "ffi" }).state === "granted";
  if (!mayCallC || Deno.build.os !== "linux") return false;
  try {
    using libc = openLibc();
    return libc.symbols.geteuid() === 0;
  } catch {
    return false; // Not glibc.
  }
}

// deno-lint-ignore explicit-function-return-type
function openLibc() {
  const library = Deno.dlopen("libc.so.6", { geteuid: { parameters: [], result: "u32" } });
  return { symbols: library.symbols, [Symbol.dispose]: () => library.close() };
}
