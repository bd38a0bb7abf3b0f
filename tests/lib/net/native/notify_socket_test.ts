import { assert, assertEquals } from "@std/assert";
import {
  AF_UNIX,
  Libc,
  MSG_DONTWAIT,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
} from "../../../../lib/net/native/libc.ts";
import { sendDatagram } from "../../../../lib/net/native/notify_socket.ts";
import { unixAddress } from "../../../../lib/net/native/socket_address.ts";
import { ServerProcess, TRANSPORTS, until } from "../../../support/servers/server_process.ts";
import { needs } from "../../../support/needs/needs.ts";

/** A service manager's socket. */
class Manager implements Disposable {
  readonly #libc = new Libc();
  readonly #fd: number;
  readonly messages: string[] = [];

  constructor(name: string) {
    const { calls } = this.#libc;
    this.#fd = calls.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    let { bytes } = unixAddress(name);
    if (name.startsWith("@")) bytes = bytes.with(2, 0).slice(0, -1);
    assertEquals(calls.bind(this.#fd, bytes, bytes.length), 0);
  }

  /** Takes what has arrived. */
  receive(): string {
    const bytes = new Uint8Array(4096);
    for (;;) {
      const length = this.#libc.calls.recv(this.#fd, bytes, bytes.length, MSG_DONTWAIT);
      if (length < 0) return this.messages.join("\n");
      this.messages.push(new TextDecoder().decode(bytes.subarray(0, length)));
    }
  }

  [Symbol.dispose](): void {
    this.#libc.calls.close(this.#fd);
    this.#libc[Symbol.dispose]();
  }
}

const isNative = TRANSPORTS.includes("native");

Deno.test(
  "sendDatagram() sends to a path and to an abstract name",
  needs("native", isNative),
  () => {
    const folder = Deno.makeTempDirSync();
    using libc = new Libc();
    for (const name of [`${folder}/socket`, `@leased-test-${Deno.pid}`]) {
      using manager = new Manager(name);
      assert(sendDatagram(libc, name, "READY=1"));
      assertEquals(manager.receive(), "READY=1");
    }
    assert(!sendDatagram(libc, `${folder}/none`, "READY=1"));
    Deno.removeSync(folder, { recursive: true });
  },
);

Deno.test("a server tells its service manager that it is ready, and that it stops", {
  ...needs("native", isNative),
}, async () => {
  const name = `@leased-test-manager-${Deno.pid}`;
  using manager = new Manager(name);
  await using server = await ServerProcess.start({
    io: "native",
    env: { NOTIFY_SOCKET: name },
    permissions: ["--allow-read", "--allow-ffi", "--allow-env=NOTIFY_SOCKET"],
  });
  await until(() => manager.receive().includes("READY=1\n"));
  await server.stop();
  assert(manager.receive().includes("STOPPING=1\n"), manager.messages.join());
});

Deno.test("the portable transport says that it cannot tell a service manager", async () => {
  await using server = await ServerProcess.start({
    env: { NOTIFY_SOCKET: "/nowhere" },
    permissions: ["--allow-read", "--allow-net", "--allow-env=NOTIFY_SOCKET"],
  });
  await server.line("NOTIFY_SOCKET is set, and the portable transport cannot send to it");
  await server.stop();
});
