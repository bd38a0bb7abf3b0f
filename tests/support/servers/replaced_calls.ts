/**
 * Replaces functions of every library that this thread opens from now on, until it is disposed.
 *
 * @param replace Gets a library's functions, returns those that take the place of the ones with the same names.
 */
export function replaceCalls<Calls>(replace: (calls: Calls) => Calls): Disposable {
  const { dlopen } = Deno;
  const dlopenReplaced = (path: string, symbols: Deno.ForeignLibraryInterface): unknown => {
    const library = dlopen(path, symbols);
    const replaced = replace(library.symbols as unknown as Calls);
    return { symbols: { ...library.symbols, ...replaced }, close: () => library.close() };
  };
  Object.assign(Deno, { dlopen: dlopenReplaced });
  return { [Symbol.dispose]: () => void Object.assign(Deno, { dlopen }) };
}

/** The address at which the C library has the error number of this thread. */
export type LibcErrors = Readonly<Record<"__errno_location", () => Deno.PointerObject>>;

/** Sets the error number, and returns what a failed call returns. */
export function failWith(calls: LibcErrors, errno: number): number {
  new Int32Array(Deno.UnsafePointerView.getArrayBuffer(calls.__errno_location(), 4))[0] = errno;
  return -1;
}
