import { assert, assertEquals, assertThrows } from "@std/assert";
import { StateError, StateFolder } from "../../../lib/journal/state_folder.ts";
import { JOURNAL_NAME } from "../../../lib/journal/token_journal.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

/** Runs `use` with the path of a folder that is removed afterwards. */
function inFolder(use: (folder: string) => void): void {
  const folder = Deno.makeTempDirSync();
  try {
    use(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("a state folder is made for its user only, and locked until it is closed", () => {
  inFolder((parent) => {
    const path = `${parent}/a/b`;
    const folder = new StateFolder(path);
    assertEquals(Deno.statSync(path).mode! & 0o777, 0o700);
    const inUse = `the state directory ${path} is in use by another server`;
    // A second lock of the same process is one of another open file.
    assertThrows(() => new StateFolder(path), StateError, inUse);
    folder.close();
    new StateFolder(path).close();
    new StateFolder(path).close();
  });
});

Deno.test("files are read, made anew, opened at a place, renamed, and known by their names", () => {
  inFolder((parent) => {
    const folder = new StateFolder(parent);
    assertEquals(folder.read("x"), null);
    Deno.writeTextFileSync(`${parent}/x`, "older and longer");
    const file = folder.create("x");
    assertEquals(folder.read("x")!.length, 0);
    assertEquals(file.write(bytesOf("abcdef")), 6);
    file.sync();
    assertEquals(file.isNamed("x"), true);
    assertEquals(file.isNamed("y"), false);
    folder.rename("x", "y");
    assertEquals([file.isNamed("x"), file.isNamed("y")], [false, true]);
    file.close();
    assertEquals(folder.read("x"), null);
    const again = folder.open("y", 3);
    again.write(bytesOf("XY"));
    again.close();
    assertEquals(textOf(folder.read("y")!), "abcXYf");
    folder.sync();
    assertThrows(() => folder.open("none", 0), Deno.errors.NotFound);
    folder.close();
  });
});

Deno.test("reserved room is zeros behind the place of the next write, which stays", () => {
  inFolder((parent) => {
    const folder = new StateFolder(parent);
    const file = folder.create("x");
    file.write(bytesOf("ab"));
    file.reserve(150_000);
    file.write(bytesOf("cd"));
    const bytes = folder.read("x")!;
    assertEquals(bytes.length, 150_002);
    assertEquals(textOf(bytes.subarray(0, 4)), "abcd");
    assert(bytes.subarray(4).every((byte) => byte === 0));
    file.close();
    folder.close();
  });
});

Deno.test("a folder that was replaced, or locked by another, takes no new journal", () => {
  inFolder((parent) => {
    const path = `${parent}/state`;
    const folder = new StateFolder(path);
    // The lock file alone was removed: it is locked again.
    Deno.removeSync(`${path}/lock`);
    folder.create("x").close();
    assertThrows(() => new StateFolder(path), StateError, "in use by another server");
    Deno.removeSync(`${path}/lock`);
    const other = new StateFolder(path);
    assertThrows(() => folder.create("x"), StateError, "in use by another server");
    other.close();
    folder.create("x").close();
    Deno.renameSync(path, `${parent}/moved`);
    assertThrows(() => folder.create("x"), Deno.errors.NotFound);
    Deno.mkdirSync(path);
    assertThrows(
      () => folder.create("x"),
      StateError,
      `the state directory ${path} was replaced; start the server again`,
    );
    folder.close();
  });
});

Deno.test("what is no state folder, or has things of others in the place of its files, is refused", () => {
  inFolder((parent) => {
    const refusal = (path: string): string =>
      assertThrows(() => new StateFolder(path), StateError).message;
    const file = `${parent}/file`;
    Deno.writeTextFileSync(file, "x");
    assertEquals(
      refusal(file),
      `cannot use the state directory ${file}: it is a file, not a folder`,
    );
    const advice = "move it away, or choose another folder with --state-dir";
    const state = `${parent}/state`;
    Deno.mkdirSync(state);
    Deno.writeTextFileSync(`${state}/lock`, "x");
    assertEquals(refusal(state), `${state}/lock is a file of another program: ${advice}`);
    Deno.writeTextFileSync(`${state}/lock`, "");
    Deno.mkdirSync(`${state}/${JOURNAL_NAME}`);
    assertEquals(refusal(state), `${state}/${JOURNAL_NAME} is a folder: ${advice}`);
    Deno.removeSync(`${state}/${JOURNAL_NAME}`);
    Deno.writeTextFileSync(`${state}/${JOURNAL_NAME}`, "a journal");
    new StateFolder(state).close();
  });
});
