import { assertEquals, assertThrows } from "@std/assert";
import {
  isReadableByAll,
  parseUserFile,
  readLoginFile,
  readUserFile,
  UserFileError,
} from "../../../lib/auth/user_file.ts";
import { hashPassword } from "../../../lib/auth/scrypt.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { bytesOf } from "../../support/sessions/side.ts";

function parse(text: string): [string, number, string][] {
  return [...parseUserFile(bytesOf(text), "users")].flatMap(([name, users]) =>
    users.map(({ access, secret }): [string, number, string] => [name, access, secret])
  );
}

function refusal(text: string): string {
  return assertThrows(() => parse(text), UserFileError).message;
}

Deno.test("a user file of memcached means the same here", () => {
  assertEquals(parse("alice:secret\nbob:pa:ss\r\ncarl:two words\n#dan:x\neve:\xe9 "), [
    ["alice", Access.ADMIN, "secret"],
    ["bob", Access.ADMIN, "pa:ss"],
    ["carl", Access.ADMIN, "two words"],
    ["#dan", Access.ADMIN, "x"],
    ["eve", Access.ADMIN, "\xe9 "],
  ]);
});

Deno.test("levels, comments, empty lines and several passwords of a user", () => {
  assertEquals(parse("# comment: of a file\n#\n\na read:1\nb  write:2\nc admin:3\na write:4\n"), [
    ["a", Access.READ, "1"],
    ["a", Access.WRITE, "4"],
    ["b", Access.WRITE, "2"],
    ["c", Access.ADMIN, "3"],
  ]);
});

Deno.test("isReadableByAll() looks at what others may do alone", () => {
  const path = Deno.makeTempFileSync();
  for (const mode of [0o600, 0o640, 0o660, 0o602, 0o601, 0o773, 0o604, 0o644, 0o004]) {
    Deno.chmodSync(path, mode);
    assertEquals(isReadableByAll(path), mode % 8 >= 4, mode.toString(8));
  }
  Deno.removeSync(path);
});

Deno.test("a mistake names its line, and no password", () => {
  assertEquals(
    refusal("a:1\nsecret\n"),
    "user file users, line 2: must be user:password or user level:password",
  );
  assertEquals(refusal("a:1\n\n:x"), "user file users, line 3: the user's name is missing");
  assertEquals(refusal("a:"), "user file users, line 1: user a has no password");
  const level =
    "user file users, line 1: the level of user a must be read, write, node, admin or absent";
  assertEquals(refusal("a reed:x"), level);
  assertEquals(refusal("a read write:x"), level);
  assertEquals(
    refusal(`a:${"x".repeat(1023)}`),
    "user file users, line 1: must have at most 1024 bytes, has 1025",
  );
  assertEquals(refusal("# nobody\n"), "user file users: has no user");
  assertEquals(
    refusal("x\n".repeat(600_000)),
    "user file users: must have at most 1000000 bytes, has 1200000",
  );
  assertEquals(
    assertThrows(() => readUserFile("/nowhere/users"), UserFileError).message,
    "cannot read the user file /nowhere/users: it does not exist",
  );
});

Deno.test("a file with this process's own name and password has one line, without a hash", async () => {
  const path = Deno.makeTempFileSync();
  const login = (text: string): unknown => {
    Deno.writeTextFileSync(path, text);
    return readLoginFile(path);
  };
  try {
    for (const text of ["me:pa:ss\n", "# who\n\nme node:pa:ss\r\n"]) {
      assertEquals(login(text), { user: "me", password: "pa:ss" });
    }
    const hash = await hashPassword(bytesOf("x"));
    for (const text of ["me:one\nme:two\n", "me:one\nyou:one\n", `me:${hash}\n`]) {
      assertEquals(
        assertThrows(() => login(text), UserFileError).message,
        `file ${path}: must have one line user:password, without a hash`,
      );
    }
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("hashes that are malformed, or would take too much, are refused", async () => {
  const hash = await hashPassword(bytesOf("x"));
  assertEquals(parse(`a read:${hash}`), [["a", Access.READ, hash]]);
  const at = "user file users, line 1: the hash of user a";
  assertEquals(refusal("a:$scrypt$x"), `${at} must be $scrypt$ln=…,r=…,p=…$<salt>$<hash>`);
  const changed = (parameters: string): string =>
    refusal(`a:${hash.replace("ln=14,r=8,p=5", parameters)}`);
  assertEquals(
    changed("ln=20,r=8,p=1"),
    `${at} must take at most 67108864 bytes of memory (128 r 2^ln), takes 1073741824`,
  );
  assertEquals(changed("ln=14,r=8,p=99"), `${at} must have 2^ln r p of at most 10485760`);
  assertEquals(changed("ln=0,r=8,p=1"), `${at} must have ln, r and p above 0`);
  assertEquals(
    refusal("a:$scrypt$ln=14,r=8,p=5$AAAA$AAAA"),
    `${at} must have a digest of at least 16 bytes`,
  );
});
