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
