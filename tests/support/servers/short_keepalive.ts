// Starts the server with the arguments given, in a minute that lasts a second: the times after which the kernel gives a
// silent TCP peer up are divided by 60. The server asks for them with setsockopt on its listening sockets.

import {
  IPPROTO_TCP,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_USER_TIMEOUT,
} from "../../../lib/net/native/libc.ts";
import { replaceCalls } from "./replaced_calls.ts";

const TIMES = [TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_USER_TIMEOUT];

type Setsockopt = (
  fd: number,
  level: number,
  name: number,
  value: Int32Array,
  size: number,
) => number;

replaceCalls<{ setsockopt: Setsockopt }>(({ setsockopt }) => ({
  setsockopt: (fd, level, name, value, size) => {
    const isTime = level === IPPROTO_TCP && TIMES.includes(name);
    const shortened = isTime ? value.map((time) => Math.max(1, time / 60)) : value;
    return setsockopt(fd, level, name, shortened, size);
  },
}));
await import("../../../main.ts");
