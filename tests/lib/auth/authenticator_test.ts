import { scryptSync } from "node:crypto";
import { assert, assertEquals } from "@std/assert";
import {
  Authenticator,
  type AuthenticatorContext,
  HASH_QUEUE_MAX,
  SLOWED_MAX,
} from "../../../lib/auth/authenticator.ts";
import { hashPassword } from "../../../lib/auth/scrypt.ts";
import { WAIT_MS_MAX } from "../../../lib/auth/throttle.ts";
import { parseUserFile } from "../../../lib/auth/user_file.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { bytesOf } from "../../support/sessions/side.ts";

/** Hashes of one address that may be queued. */
const QUEUED_OF_ADDRESS_MAX = 16;

/** A clock that the test moves. */
class TestWorld implements AuthenticatorContext {
  now = 0;
  readonly slowedAddresses: string[] = [];
  readonly #timers = new Map<() => void, number>();

  nowMs(): number {
    return this.now;
  }

  after(ms: number, callback: () => void): () => void {
    this.#timers.set(callback, this.now + ms);
    return () => this.#timers.delete(callback);
  }

  slowed(address: string): void {
    this.slowedAddresses.push(address);
  }

  get waiting(): number {
    return this.#timers.size;
  }

  async advance(ms: number): Promise<void> {
    this.now += ms;
    for (const [callback, atMs] of this.#timers) if (atMs <= this.now) callback();
    await tasks();
  }
}

/** Lets promises settle that wait for nothing outside. */
async function tasks(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
}

const users = (text: string): ReturnType<typeof parseUserFile> =>
  parseUserFile(bytesOf(text), "users");

function attempt(
  user: string,
  password: string,
  address = "a",
  isAwaited = true,
): Parameters<Authenticator["check"]>[0] {
  return {
    credentials: { user: bytesOf(user), password: bytesOf(password) },
    address,
    isAwaited: () => isAwaited,
  };
}

Deno.test("plain and hashed passwords give their lines' access", async () => {
  const hash = await hashPassword(bytesOf("hidden"));
  const world = new TestWorld();
  const authenticator = new Authenticator(users(`a:plain\nb read:${hash}\nb write:other\n`), world);
  assertEquals(await authenticator.check(attempt("a", "plain")), Access.ADMIN);
  assertEquals(await authenticator.check(attempt("b", "hidden")), Access.READ);
  assertEquals(await authenticator.check(attempt("b", "other")), Access.WRITE);
  for (const wrong of ["", "plai", "plain ", "plainn", "hidden", hash]) {
    assertEquals(await authenticator.check(attempt("a", wrong, wrong)), Access.NONE, wrong);
  }
  assertEquals(await authenticator.check(attempt("b", hash, "b")), Access.NONE);
  assertEquals(await authenticator.check(attempt("nobody", "plain", "c")), Access.NONE);
  assertEquals(await authenticator.check(attempt("nobody", "", "d")), Access.NONE);
});

Deno.test("a hash that takes as much memory as a user file allows is checked", async () => {
  const [N, r, p] = [2 ** 16, 8, 1];
  assertEquals(128 * r * N, 67_108_864);
  const digest = scryptSync("costly", "salt", 32, { N, r, p, maxmem: 2 ** 28 });
  const [salt, hash] = [btoa("salt"), digest.toBase64()].map((text) => text.replace(/=+$/, ""));
  const line = `a:$scrypt$ln=16,r=${r},p=${p}$${salt}$${hash}`;
  const authenticator = new Authenticator(users(line), new TestWorld());
  assertEquals(await authenticator.check(attempt("a", "costly")), Access.ADMIN);
  assertEquals(await authenticator.check(attempt("a", "cheap", "b")), Access.NONE);
});

Deno.test("new users replace the old ones, remembered passwords included", async () => {
  const world = new TestWorld();
  const hash = await hashPassword(bytesOf("one"));
  const authenticator = new Authenticator(users(`a:${hash}`), world);
  assertEquals(await authenticator.check(attempt("a", "one")), Access.ADMIN);
  authenticator.replaceUsers(users("a:two"));
  assertEquals(await authenticator.check(attempt("a", "one")), Access.NONE);
  assertEquals(await authenticator.check(attempt("a", "two")), Access.ADMIN);
});

Deno.test("an address that guesses is slowed down; another one is not", async () => {
  const world = new TestWorld();
  const authenticator = new Authenticator(users("a:right"), world);
  for (let index = 0; index < 6; index++) await authenticator.check(attempt("a", `no${index}`));
  assertEquals(world.slowedAddresses, ["a"]);
  let late: Access | null = null;
  authenticator.check(attempt("a", "right")).then((access) => late = access);
  await tasks();
  assertEquals(late, null);
  assertEquals(await authenticator.check(attempt("a", "right", "b")), Access.ADMIN);
  await world.advance(25);
  assertEquals(late, Access.ADMIN);
});

Deno.test("a thousand guesses at once wait, within bounds, and are refused", async () => {
  const world = new TestWorld();
  const authenticator = new Authenticator(users("a:right"), world);
  const ended: Access[] = [];
  for (let index = 0; index < SLOWED_MAX + 1000; index++) {
    authenticator.check(attempt("a", `no${index}`)).then((access) => ended.push(access));
    if (index < 10) await tasks();
  }
  await tasks();
  assert(world.waiting <= SLOWED_MAX, `${world.waiting}`);
  assertEquals(await authenticator.check(attempt("a", "right", "b")), Access.ADMIN);
  for (let step = 0; step < 60; step++) await world.advance(250);
  assertEquals(world.waiting, 0);
  assertEquals(ended.length, SLOWED_MAX + 1000);
  assert(ended.every((access) => access === Access.NONE));
});

Deno.test("hashes of one address do not keep another one waiting", async () => {
  const hash = await hashPassword(bytesOf("right"));
  const world = new TestWorld();
  const authenticator = new Authenticator(users(`a:${hash}`), world);
  const guesses = Array.from(
    { length: HASH_QUEUE_MAX + 100 },
    (_, index) => authenticator.check(attempt("a", `no${index}`)),
  );
  // Behind at most those that one address may have in the queue.
  assertEquals(await authenticator.check(attempt("a", "right", "b")), Access.ADMIN);
  authenticator.stop();
  assert((await Promise.all(guesses)).every((access) => access === Access.NONE));
  assertEquals(await authenticator.check(attempt("a", "right", "b")), Access.NONE);
});

Deno.test("hashes of clients that are gone leave room for others of their address", async () => {
  const hash = await hashPassword(bytesOf("right"));
  const world = new TestWorld();
  const authenticator = new Authenticator(users(`a:${hash}`), world);
  const inProgress = ["b", "c"].map((address) =>
    authenticator.check(attempt("a", `no ${address}`, address))
  );
  let isAwaited = true;
  const gone = Array.from(
    { length: QUEUED_OF_ADDRESS_MAX },
    (_, index) =>
      authenticator.check({ ...attempt("a", `no${index}`), isAwaited: () => isAwaited }),
  );
  isAwaited = false;
  const refused = await Promise.all([...inProgress, ...gone]);
  assert(refused.every((access) => access === Access.NONE));
  // Their failures are forgotten.
  await world.advance(3_600_000);
  const late = authenticator.check(attempt("a", "right"));
  await tasks();
  // The end of the wait of one that is refused unchecked.
  await world.advance(WAIT_MS_MAX);
  assertEquals(await late, Access.ADMIN);
});

Deno.test("clients that are gone are not checked", async () => {
  const world = new TestWorld();
  const authenticator = new Authenticator(users("a:right"), world);
  assertEquals(await authenticator.check(attempt("a", "right", "a", false)), Access.NONE);
  assertEquals(world.slowedAddresses, []);
});
