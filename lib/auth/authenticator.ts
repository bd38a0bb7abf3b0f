import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { Access } from "../../protocol/auth/access.ts";
import type { Credentials } from "../../protocol/auth/password_checks.ts";
import { latin1Bytes, latin1Text } from "../../store/base/bytes.ts";
import { isPasswordOf } from "./scrypt.ts";
import { Throttle, WAIT_MS_MAX } from "./throttle.ts";
import type { User, Users } from "./user_file.ts";

/** Maximum number of hashes in progress: each takes a processor and 16 MiB. */
const HASHES_MAX = 2;
/** Maximum number of queued hashes, for one address and in total. Further passwords are refused unchecked. */
const HASHES_PER_ADDRESS_MAX = 16;
export const HASH_QUEUE_MAX = 1024;
/** Maximum number of attempts that wait because their address is slowed down. Further ones are refused at once. */
export const SLOWED_MAX = 4096;

/** One authentication. */
interface Attempt {
  readonly credentials: Credentials;
  /** The client's address, without its port: see `addressOf`. */
  readonly address: string;
  /** Whether the client still waits. Attempts of closed connections are not checked. */
  isAwaited(): boolean;
}

/** Clock, timers and log; tests replace them. */
export interface AuthenticatorContext {
  nowMs(): number;
  /** Calls back after a time. @returns A function that prevents it. */
  after(ms: number, callback: () => void): () => void;
  /** Called when an address becomes slowed down. */
  slowed(address: string): void;
}

/** A hash to compute while a client waits for it. */
interface QueuedHash {
  isAwaited(): boolean;
  run(): Promise<void>;
  drop(): void;
}

/**
 * Checks passwords. Runs on a thread that serves no connections. Comparisons take constant time, hashes are computed on
 * threads of the runtime's pool, and both the number of checks in progress and the memory are bounded.
 */
export class Authenticator {
  readonly #context: AuthenticatorContext;
  readonly #throttle = new Throttle();
  /** Key of the digests that are compared: the time of a comparison reveals nothing about the password. */
  readonly #key = randomBytes(32);
  /** Digest under `#key` of the last right password of each hash, which is then not hashed again. */
  readonly #verified = new Map<string, string>();
  #users: Users;
  /** Checked in place of unknown users, so that the reply takes as long as for a known user. */
  #decoy: User;
  /** Hashes of addresses without recent failures, which are computed first. */
  readonly #queue: QueuedHash[] = [];
  readonly #suspectQueue: QueuedHash[] = [];
  /** Checks of the same password against the same hash share one computation. */
  readonly #inProgress = new Map<string, { attempts: Attempt[]; fits: Promise<boolean> }>();
  readonly #hashesOf = new Map<string, number>();
  #hashing = 0;
  /** Ends the waits of attempts that are slowed down. */
  readonly #sleepers = new Set<() => void>();
  #stopped = false;

  constructor(users: Users, context: AuthenticatorContext) {
    this.#context = context;
    this.#users = users;
    this.#decoy = decoyOf(users);
  }

  get users(): Users {
    return this.#users;
  }

  /** Replaces the users. Authenticated connections keep their access. */
  replaceUsers(users: Users): void {
    this.#users = users;
    this.#decoy = decoyOf(users);
    this.#verified.clear();
  }

  /** Refuses all waiting and later attempts. */
  stop(): void {
    this.#stopped = true;
    for (const wake of this.#sleepers) wake();
    for (const queue of [this.#queue, this.#suspectQueue]) {
      for (const { drop } of queue.splice(0)) drop();
    }
  }

  /** Returns the user's access. Access.NONE: wrong name or password, or too many attempts. */
  async check(attempt: Attempt): Promise<Access> {
    const { address } = attempt;
    const waitMs = this.#throttle.reserve(address, this.#context.nowMs());
    if (waitMs === null) return await this.#refuseLate();
    if (waitMs > 0 && !await this.#sleep(waitMs)) return Access.NONE;
    if (this.#stopped || !attempt.isAwaited()) return Access.NONE;
    const access = await this.#accessOf(attempt);
    if (access === Access.NONE && this.#throttle.failed(address, this.#context.nowMs())) {
      this.#context.slowed(address);
    }
    return access;
  }

  /** After a quick refusal the client could try again at once. */
  async #refuseLate(): Promise<typeof Access.NONE> {
    await this.#sleep(WAIT_MS_MAX);
    return Access.NONE;
  }

  /** @returns False when too many wait already. */
  async #sleep(ms: number): Promise<boolean> {
    if (this.#sleepers.size >= SLOWED_MAX || this.#stopped) return false;
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#context.after(ms, resolve);
    this.#sleepers.add(resolve);
    await promise;
    this.#sleepers.delete(resolve);
    cancel();
    return true;
  }

  /** @returns The highest access of the user's lines that have this password. */
  async #accessOf(attempt: Attempt): Promise<Access> {
    const { user, password } = attempt.credentials;
    const known = this.#users.get(latin1Text(user));
    const digest = this.#digest(password);
    let access: Access = Access.NONE;
    for (const each of known ?? [this.#decoy]) {
      const isRight = each.isHashed
        ? await this.#fitsHash(each, digest, attempt)
        : areEqual(digest, this.#digest(latin1Bytes(each.secret)));
      if (isRight && each.access > access) access = each.access;
    }
    return known === undefined ? Access.NONE : access;
  }

  /** @param digest Of the password. */
  async #fitsHash({ secret, access }: User, digest: string, attempt: Attempt): Promise<boolean> {
    const verified = this.#verified.get(secret);
    if (verified !== undefined && areEqual(digest, verified)) return true;
    const name = digest + secret;
    let shared = this.#inProgress.get(name);
    if (shared === undefined) {
      const attempts: Attempt[] = [];
      shared = { attempts, fits: this.#hash(secret, attempt, attempts) };
      this.#inProgress.set(name, shared);
      shared.fits.finally(() => this.#inProgress.delete(name));
    }
    shared.attempts.push(attempt);
    if (!await shared.fits) return false;
    if (access !== Access.NONE) this.#verified.set(secret, digest);
    return true;
  }

  /** Returns a digest under a secret key. The time of a comparison of two reveals nothing about the password. */
  #digest(bytes: Uint8Array): string {
    return createHmac("sha256", this.#key).update(bytes).digest("base64");
  }

  /**
   * Queues the password for hashing, and compares its hash with `secret`.
   *
   * @param attempts All that wait for the result; more may be added.
   * @returns Whether they are equal; false also when the queue is full.
   */
  async #hash(
    secret: string,
    { address, credentials }: Attempt,
    attempts: readonly Attempt[],
  ): Promise<boolean> {
    const ofAddress = this.#hashesOf.get(address) ?? 0;
    const waiting = this.#queue.length + this.#suspectQueue.length;
    if (ofAddress >= HASHES_PER_ADDRESS_MAX || waiting >= HASH_QUEUE_MAX || this.#stopped) {
      await this.#sleep(WAIT_MS_MAX);
      return false;
    }
    this.#hashesOf.set(address, ofAddress + 1);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const queue = this.#throttle.isSuspect(address) ? this.#suspectQueue : this.#queue;
    queue.push({
      isAwaited: () => attempts.length === 0 || attempts.some((each) => each.isAwaited()),
      run: () => isPasswordOf(credentials.password, secret).then(resolve, reject),
      drop: () => resolve(false),
    });
    this.#runQueued();
    try {
      return await promise;
    } finally {
      const left = this.#hashesOf.get(address)! - 1;
      if (left > 0) this.#hashesOf.set(address, left);
      else this.#hashesOf.delete(address);
    }
  }

  #runQueued(): void {
    while (this.#hashing < HASHES_MAX) {
      const next = this.#queue.shift() ?? this.#suspectQueue.shift();
      if (next === undefined) return;
      if (!next.isAwaited()) {
        next.drop();
        continue;
      }
      this.#hashing++;
      next.run().finally(() => {
        this.#hashing--;
        this.#runQueued();
      });
    }
  }
}

function areEqual(a: string, b: string): boolean {
  return timingSafeEqual(latin1Bytes(a), latin1Bytes(b));
}

/** Returns a user without a valid password whose check costs as much as the costliest one. */
function decoyOf(users: Users): User {
  const hashed = [...users.values()].flat().find(({ isHashed }) => isHashed);
  return hashed === undefined
    ? { access: Access.NONE, secret: "", isHashed: false }
    : { ...hashed, access: Access.NONE };
}

/**
 * Returns the part of a peer's name that identifies one client: `tcp:192.0.2.1:40000` → `192.0.2.1`; the first 64 bits
 * of an IPv6 address, because one client has all of them; the whole name of a Unix socket.
 *
 * @param peer As `stats conns` has it, or `host:port`.
 */
export function addressOf(peer: string): string {
  const host = /^(?:tcp6?:)?\[?(.*?)\]?:\d+$/.exec(peer)?.[1];
  if (host === undefined) return peer;
  const mapped = /^::ffff:(\d+(?:\.\d+){3})$/i.exec(host);
  if (mapped !== null) return mapped[1]!;
  return host.includes(":") ? networkOf(host) : host;
}

/** The first four groups of an IPv6 address. */
function networkOf(host: string): string {
  const [head = "", tail] = host.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined
    ? []
    : new Array<string>(8 - before.length - after.length).fill("0");
  return `${[...before, ...zeros, ...after].slice(0, 4).join(":")}::/64`;
}
