import { assertEquals } from "@std/assert";
import { hashPassword } from "../../../lib/auth/scrypt.ts";
import { readUserFile } from "../../../lib/auth/user_file.ts";
import { Authentication } from "../../../lib/server/authentication.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { bytesOf } from "../../support/sessions/side.ts";

Deno.test("a stop refuses password checks that wait, and later ones", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/users`;
  const names = ["a", "b", "c"];
  const lines = await Promise.all(
    names.map(async (name) => `${name}:${await hashPassword(bytesOf(`password of ${name}`))}\n`),
  );
  await Deno.writeTextFile(path, lines.join(""), { mode: 0o600 });
  using side = new ConversationSide(["-Y", path]);
  const authentication = new Authentication(path, readUserFile(path), side.shared, {
    name: "portable",
    listens: [],
    usesIoUring: false,
    ioUringReason: "",
    workerData: () => null,
    wake: () => {},
    listen: () => {},
    refreshCertificates: () => {},
    certificateAgeSec: 0,
    certificateGeneration: 0,
    close: () => {},
  });
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
