import { assertEquals } from "@std/assert";
import { hashPassword } from "../../../lib/auth/scrypt.ts";
import { readUserFile } from "../../../lib/auth/user_file.ts";
import { Authentication } from "../../../lib/server/authentication.ts";
import { Access } from "../../../protocol/auth/access.ts";
import type { BoundTransport } from "../../../lib/net/transport.ts";
import { loggedBy } from "../../support/log.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { bytesOf } from "../../support/sessions/side.ts";

/** A transport that remembers which threads were woken. */
function transportOf(woken: number[] = []): BoundTransport {
  return {
    name: "portable",
    listens: [],
    usesIoUring: false,
    ioUringReason: "",
    workerData: () => null,
    wake: (index) => woken.push(index),
    listen: () => {},
    refreshCertificates: () => {},
    certificateAgeSec: 0,
    certificateGeneration: 0,
    close: () => {},
  };
}

Deno.test("a stop refuses password checks that wait, and later ones", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/users`;
  const names = ["a", "b", "c"];
  const lines = await Promise.all(
    names.map(async (name) => `${name}:${await hashPassword(bytesOf(`password of ${name}`))}\n`),
  );
  await Deno.writeTextFile(path, lines.join(""), { mode: 0o600 });
  using side = new ConversationSide(["-Y", path]);
  const authentication = new Authentication(path, readUserFile(path), side.shared, transportOf());
  const accessOf = (name: string): Promise<Access> =>
    authentication.accessOf(
      { user: bytesOf(name), password: bytesOf(`password of ${name}`) },
      "127.0.0.1:1",
    );
  // Two hashes are computed at a time; the third one waits.
  const checks = names.map(accessOf);
  authentication.stop();
  assertEquals(await Promise.all(checks), [Access.ADMIN, Access.ADMIN, Access.NONE]);
  assertEquals(await accessOf("c"), Access.NONE);
  await Deno.remove(folder, { recursive: true });
});

/** Runs `use` with a file of users that only this user may read. */
async function withUsers(text: string, use: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, text);
    await Deno.chmod(path, 0o600);
    await use(path);
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("a verdict goes to the connection that waits, and wakes its thread", () =>
  withUsers("ann read:right\n", async (path) => {
    const woken: number[] = [];
    using side = new ConversationSide(["-Y", path]);
    const authentication = new Authentication(
      path,
      readUserFile(path),
      side.shared,
      transportOf(woken),
    );
    side.heldVerdicts = [];
    for (const [password, reply] of [["wrong", "CLIENT_ERROR"], ["right", "STORED"]] as const) {
      const peer = side.connect();
      assertEquals(peer.ask(`set login 0 0 9\r\nann ${password}\r\n`), "");
      const credentials = { user: bytesOf("ann"), password: bytesOf(password) };
      await authentication.check(peer.owner, credentials);
      side.thread.takeReady(0, (owner) => owner === peer.owner && peer.goOn());
      assertEquals(peer.takeAll().split(/[ \r]/)[0], reply);
      assertEquals(woken.splice(0), [0]);
      // No connection waits for it any more.
      await authentication.check(peer.owner, credentials);
      assertEquals(woken, []);
    }
    authentication.stop();
  }));

Deno.test("a reload takes the new users, or keeps the old ones and says why", () =>
  withUsers("ann read:one\n", async (path) => {
    using side = new ConversationSide(["-Y", path]);
    const logged: string[] = [];
    let made: Authentication | undefined;
    logged.push(...loggedBy("text", 0, () => {
      made = new Authentication(path, readUserFile(path), side.shared, transportOf());
    }));
    assertEquals(logged, []);
    const authentication = made!;
    const accessOf = (user: string, password: string): Promise<Access> =>
      authentication.accessOf({ user: bytesOf(user), password: bytesOf(password) }, "10.0.0.1");
    assertEquals(await accessOf("ann", "one"), Access.READ);
    await Deno.writeTextFile(path, "ann admin:two\nbob write:three\n");
    assertEquals(loggedBy("text", 0, () => authentication.reload()), [
      `user file ${path} reloaded; users: 2`,
    ]);
    assertEquals(await accessOf("ann", "one"), Access.NONE);
    assertEquals(await accessOf("ann", "two"), Access.ADMIN);
    assertEquals([...authentication.users.keys()], ["ann", "bob"]);
    await Deno.writeTextFile(path, "no colon\n");
    assertEquals(loggedBy("text", 0, () => authentication.reload()), [
      `error: user file ${path}, line 1: must be user:password or user level:password; the previous ` +
      "users stay in force",
    ]);
    assertEquals(await accessOf("bob", "three"), Access.WRITE);
    await Deno.writeTextFile(path, "cat:x\n");
    await Deno.chmod(path, 0o604);
    assertEquals(loggedBy("text", 0, () => authentication.reload()), [
      `warning: every user of this host can read the user file ${path}; run chmod 600 ${path}`,
      `user file ${path} reloaded; users: 1`,
    ]);
    const made2 = loggedBy("text", 0, () => {
      new Authentication(path, readUserFile(path), side.shared, transportOf());
    });
    assertEquals(made2.length, 1);
    authentication.stop();
  }));

Deno.test("an address that sends wrong passwords is named in the log once", () =>
  withUsers("ann:right\n", async (path) => {
    using side = new ConversationSide(["-Y", path]);
    const authentication = new Authentication(path, readUserFile(path), side.shared, transportOf());
    const { writeSync } = Deno.stderr;
    const lines: string[] = [];
    loggedBy("text", 0, () => {});
    Deno.stderr.writeSync = (bytes) => {
      lines.push(new TextDecoder().decode(bytes));
      return bytes.length;
    };
    try {
      for (let index = 0; index < 7; index++) {
        const credentials = { user: bytesOf("ann"), password: bytesOf(`no${index}`) };
        assertEquals(await authentication.accessOf(credentials, "10.0.0.7"), Access.NONE);
      }
    } finally {
      Deno.stderr.writeSync = writeSync;
    }
    assertEquals(lines.map((line) => line.replace(/^\S+ /, "")), [
      "warning: 10.0.0.7 sent several wrong passwords: its further attempts are slowed down\n",
    ]);
    authentication.stop();
  }));
