// Starts the server with the arguments given, in a minute that lasts a second: the times after which the kernel gives a
// silent TCP peer up are divided by 60. The server asks for them with setsockopt on its listening sockets.

import {
  IPPROTO_TCP,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_USER_TIMEOUT,
} from "../../../lib/net/native/libc.ts";

const TIMES = [TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_USER_TIMEOUT];

type Setsockopt = (
  fd: number,
  level: number,
  name: number,
  value: Int32Array,
  size: number,
) => number;

const { dlopen } = Deno;

function dlopenShortened(filename: string, symbols: Deno.ForeignLibraryInterface): unknown {
  const library = dlopen(filename, symbols);
  const calls = library.symbols as unknown as { setsockopt: Setsockopt };
  const setsockopt: Setsockopt = (fd, level, name, value, size) => {
    const isTime = level === IPPROTO_TCP && TIMES.includes(name);
    const shortened = isTime ? value.map((time) => Math.max(1, time / 60)) : value;
    return calls.setsockopt(fd, level, name, shortened, size);
  };
  return { symbols: { ...library.symbols, setsockopt }, close: () => library.close() };
}

Object.assign(Deno, { dlopen: dlopenShortened });
await import("../../../main.ts");
