import { assert, assertEquals, assertThrows } from "@std/assert";
import { createEpoll, Epoll, EPOLLIN, EPOLLOUT } from "../../../../lib/net/native/epoll.ts";
import {
  EAGAIN,
  EBADF,
  EFD_NONBLOCK,
  EINTR,
  Libc,
  libcAvailable,
} from "../../../../lib/net/native/libc.ts";
import {
  failWith,
  type LibcErrors,
  replaceCalls,
} from "../../../support/servers/replaced_calls.ts";
import { needs } from "../../../support/needs/needs.ts";

Deno.test(
  { name: "epoll reports descriptor, events and tag", ...needs("native", libcAvailable()) },
  () => {
    using libc = new Libc();
    const epoll = new Epoll(libc, createEpoll(libc), 4);
    const [first, second] = [0, 1].map(() => libc.calls.eventfd(0, EFD_NONBLOCK)) as [
      number,
      number,
    ];
    assert(epoll.add(first, EPOLLIN, 7));
    assert(epoll.add(second, EPOLLIN, 8));
    assertEquals(epoll.wait(0), 0);
    libc.calls.write(second, new BigUint64Array([1n]), 8);
    assertEquals(epoll.wait(0), 1);
    assertEquals([epoll.fd(0), epoll.events(0), epoll.tag(0)], [second, EPOLLIN, 8]);
    epoll.modify(second, EPOLLIN | EPOLLOUT, 9);
    assertEquals(epoll.wait(0), 1);
    assertEquals([epoll.events(0), epoll.tag(0)], [EPOLLIN | EPOLLOUT, 9]);
    epoll.remove(second);
    assertEquals(epoll.wait(0), 0);
    for (const fd of [first, second, epoll.epollFd]) libc.calls.close(fd);
  },
);

Deno.test({ name: "errno tells why a call failed", ...needs("native", libcAvailable()) }, () => {
  using libc = new Libc();
  const fd = libc.calls.eventfd(0, EFD_NONBLOCK);
  assertEquals(libc.calls.read(fd, new Uint8Array(8), 8), -1);
  assertEquals(libc.errno, EAGAIN);
  libc.calls.close(fd);
});

Deno.test({
  name: "a signal ends a wait, whatever errno its handler leaves; no epoll instance is an error",
  ...needs("native", libcAvailable()),
}, () => {
  let left = 0;
  type Calls = LibcErrors & { readonly epoll_wait: () => number };
  using _replaced = replaceCalls<Calls>((calls) => ({
    ...calls,
    epoll_wait: () => failWith(calls, left),
  }));
  using libc = new Libc();
  const epoll = new Epoll(libc, createEpoll(libc), 4);
  for (left of [EINTR, EAGAIN, 0]) assertEquals(epoll.wait(0), 0, `${left}`);
  left = EBADF;
  assertThrows(() => epoll.wait(0), Error, "epoll_wait says EBADF");
  libc.calls.close(epoll.epollFd);
});
