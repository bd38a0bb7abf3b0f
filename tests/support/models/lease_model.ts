import type { Part } from "../sessions/transcript.ts";

/** State of a key: a value, the right to fill it, or the placeholder that `mg N` creates. */
interface Entry {
  readonly kind: "value" | "lease" | "stub";
  readonly value: string;
  /** It is there while the clock is below it. */
  readonly deadlineSec: number;
  /** Numbers changes: stands for the cas id. */
  readonly version: number;
}

interface KeyRecord {
  entry: Entry | undefined;
  /** Latest deadline of a value that is stored without the lease's id. */
  dirtyUntilSec: number;
}

/** One command on one key. A cas id is named by the hole that it was learned in. */
export interface LeaseCommand {
  readonly name: typeof LEASE_COMMANDS[number];
  readonly key: string;
  /** An exptime, or the seconds of a lease. */
  readonly seconds: number;
  readonly value: string;
  readonly id: string;
  /** The tag of `token get`; "": none. */
  readonly owner: string;
}

export const LEASE_COMMANDS = [
  ...["get", "gets", "gat", "gats", "getss", "deletess", "lease-get", "lease-set"] as const,
  ...["set", "add", "replace", "append", "prepend", "cas", "incr", "touch", "delete"] as const,
  ...["mg N", "ms", "ms C", "md", "md C", "flush_all"] as const,
  ...["token get", "token release", "token drop", "token drop id"] as const,
  ...["quarantine on", "quarantine off"] as const,
];

const FLAG = 13107;
const LEASE_TIME_SEC = 10;
const STUB_SEC = 10;
const U64 = 1n << 64n;

/** An update token that is out. */
interface Token {
  readonly version: number;
  readonly owner: string;
}

/**
 * Model of leases and update tokens: the effect of each command on each kind of entry. No lease is ever dropped, and
 * there is room for every token.
 */
export class LeaseModel {
  #nowSec = 0;
  #version = 0;
  readonly #records = new Map<string, KeyRecord>();
  readonly #tokens = new Map<string, Token[]>();
  #isQuarantined = false;

  advance(seconds: number): void {
    this.#nowSec += seconds;
  }

  /** The hole of the id that a key has now; under a token, the newest token's. */
  idOf(key: string): string | undefined {
    const token = this.#tokens.get(key)?.at(-1);
    if (token !== undefined) return holeOf(token);
    const entry = this.#entry(key);
    return entry && holeOf(entry);
  }

  /** The reply, with holes for cas ids. */
  execute(command: LeaseCommand): Part[] {
    const { name, key, seconds, id } = command;
    if (name.startsWith("token") || name.startsWith("quarantine")) return this.#token(command);
    if (name !== "flush_all" && this.#isUncacheable(key)) return this.#refuse(command);
    const entry = this.#entry(key);
    const item = entry?.kind === "lease" ? undefined : entry;
    switch (name) {
      case "get":
      case "gets":
        return item ? shown(key, item, name === "gets") : ["END\r\n"];
      case "gat":
      case "gats":
        if (item) this.#put(key, { ...item, deadlineSec: this.#cut(key, seconds) });
        return item ? shown(key, item, name === "gats") : ["END\r\n"];
      case "touch":
        if (item === undefined) return ["NOT_FOUND\r\n"];
        this.#put(key, { ...item, deadlineSec: this.#cut(key, seconds) });
        return ["TOUCHED\r\n"];
      case "getss":
        return this.#getss(key, seconds, entry);
      case "lease-get":
        if (entry?.kind === "value") return shown(key, entry, false);
        if (entry !== undefined) return [`LVALUE ${key} 1 0 0\r\n\r\nEND\r\n`];
        return [`LVALUE ${key} `, hole(this.#grant(key, LEASE_TIME_SEC)), " 0 0\r\n\r\nEND\r\n"];
      case "deletess": {
        const word = entry === undefined ? "NOT_FOUND " : "DELETED ";
        return [word, hole(this.#grant(key, seconds)), "\r\n"];
      }
      case "delete":
        return [this.#remove(key, entry) ? "DELETED\r\n" : "NOT_FOUND\r\n"];
      case "md":
        return [this.#remove(key, entry) ? "HD\r\n" : "NF\r\n"];
      case "md C":
        return [this.#removeById(key, entry, id)];
      case "mg N":
        return this.#vivify(key, entry);
      case "incr":
        return [this.#increment(key, entry)];
      case "flush_all":
        this.#records.clear();
        return ["OK\r\n"];
      default:
        return [this.#store(command, entry)];
    }
  }

  #isUncacheable(key: string): boolean {
    return this.#isQuarantined || (this.#tokens.get(key)?.length ?? 0) > 0;
  }

  #token({ name, key, id, owner }: LeaseCommand): Part[] {
    const tokens = this.#tokens.get(key) ?? [];
    const named = tokens.find((token) => holeOf(token) === id);
    const remove = (gone: readonly Token[]): void => {
      this.#tokens.set(key, tokens.filter((token) => !gone.includes(token)));
    };
    switch (name) {
      case "token get": {
        let token = tokens.find((one) => owner !== "" && one.owner === owner);
        if (token === undefined) {
          token = { version: ++this.#version, owner };
          this.#tokens.set(key, [...tokens, token]);
          this.#records.delete(key);
        }
        return ["TOKEN ", hole(token), "\r\n"];
      }
      case "token release":
        this.#records.delete(key);
        if (named === undefined) return ["NOT_FOUND\r\n"];
        remove([named]);
        return ["OK\r\n"];
      case "token drop":
        remove(tokens);
        return [`OK ${tokens.length}\r\n`];
      case "token drop id":
        if (named !== undefined) remove([named]);
        return [named === undefined ? "OK 0\r\n" : "OK 1\r\n"];
      default:
        this.#isQuarantined = name === "quarantine on";
        if (this.#isQuarantined) this.#records.clear();
        return ["OK\r\n"];
    }
  }

  /** The reply under an update token, or in quarantine. */
  #refuse({ name, key }: LeaseCommand): Part[] {
    const burnt = (): Part => hole({ version: ++this.#version });
    switch (name) {
      case "get":
      case "gets":
      case "gat":
      case "gats":
        return ["END\r\n"];
      case "getss":
        return [`VALUE ${key} ${FLAG} 1 `, burnt(), "\r\n1\r\nEND\r\n"];
      case "lease-get":
        this.#version++;
        return [`LVALUE ${key} 1 0 0\r\n\r\nEND\r\n`];
      case "deletess":
        return ["NOT_FOUND ", burnt(), "\r\n"];
      case "mg N":
        return ["HD c", burnt(), " Z U\r\n"];
      case "ms":
        return ["NS\r\n"];
      case "ms C":
      case "md":
      case "md C":
        return ["NF\r\n"];
      case "cas":
      case "incr":
      case "touch":
      case "delete":
        return ["NOT_FOUND\r\n"];
      default:
        return ["NOT_STORED\r\n"];
    }
  }

  #record(key: string): KeyRecord {
    let record = this.#records.get(key);
    if (record === undefined) {
      record = { entry: undefined, dirtyUntilSec: 0 };
      this.#records.set(key, record);
    }
    return record;
  }

  #entry(key: string): Entry | undefined {
    const entry = this.#records.get(key)?.entry;
    return entry !== undefined && this.#nowSec < entry.deadlineSec ? entry : undefined;
  }

  #put(key: string, entry: Entry | undefined): void {
    this.#record(key).entry = entry;
  }

  #deadline(seconds: number): number {
    return seconds === 0 ? Infinity : seconds < 0 ? 0 : this.#nowSec + seconds;
  }

  /** Returns the deadline of a write without the lease's id. */
  #cut(key: string, seconds: number): number {
    const deadlineSec = this.#deadline(seconds);
    const { entry, dirtyUntilSec } = this.#record(key);
    if (entry?.kind === "lease" && this.#nowSec < entry.deadlineSec) {
      return Math.min(deadlineSec, entry.deadlineSec);
    }
    return this.#nowSec < dirtyUntilSec ? Math.min(deadlineSec, dirtyUntilSec) : deadlineSec;
  }

  #grant(key: string, seconds: number): Entry {
    const deadlineSec = this.#nowSec + (seconds === 0 ? LEASE_TIME_SEC : seconds);
    const lease: Entry = { kind: "lease", value: "", deadlineSec, version: ++this.#version };
    this.#put(key, lease);
    return lease;
  }

  #renew(key: string, lease: Entry): void {
    this.#put(key, { ...lease, version: ++this.#version });
  }

  #getss(key: string, seconds: number, entry: Entry | undefined): Part[] {
    if (entry?.kind === "value") return shown(key, entry, true);
    const left = entry === undefined ? 0 : entry.deadlineSec - this.#nowSec;
    // A stub that never ends is shown as a lease of the usual time.
    const remain = String(left === Infinity ? LEASE_TIME_SEC : left);
    const lease = entry ?? this.#grant(key, seconds);
    return [`VALUE ${key} ${FLAG} ${remain.length} `, hole(lease), `\r\n${remain}\r\nEND\r\n`];
  }

  #remove(key: string, entry: Entry | undefined): boolean {
    if (entry?.kind === "lease") this.#renew(key, entry);
    if (entry === undefined || entry.kind === "lease") return false;
    this.#records.delete(key);
    return true;
  }

  #removeById(key: string, entry: Entry | undefined, id: string): string {
    if (entry === undefined) return "NF\r\n";
    if (holeOf(entry) !== id) return "EX\r\n";
    if (entry.kind === "lease") this.#put(key, undefined);
    else this.#records.delete(key);
    return "HD\r\n";
  }

  #vivify(key: string, entry: Entry | undefined): Part[] {
    if (entry !== undefined) {
      return ["HD c", hole(entry), entry.kind === "value" ? "\r\n" : " Z\r\n"];
    }
    const deadlineSec = this.#nowSec + STUB_SEC;
    const stub: Entry = { kind: "stub", value: "", deadlineSec, version: ++this.#version };
    this.#put(key, stub);
    return ["HD c", hole(stub), " W\r\n"];
  }

  #increment(key: string, entry: Entry | undefined): string {
    if (entry?.kind === "lease") this.#renew(key, entry);
    if (entry === undefined || entry.kind === "lease") return "NOT_FOUND\r\n";
    if (entry.value === "" || BigInt(entry.value) >= U64) {
      return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    }
    const value = String((BigInt(entry.value) + 1n) % U64);
    this.#put(key, { ...entry, kind: "value", value, version: ++this.#version });
    return `${value}\r\n`;
  }

  #store({ name, key, seconds, value, id }: LeaseCommand, entry: Entry | undefined): string {
    const says = (text: string, meta: string): string =>
      `${name.startsWith("ms") ? meta : text}\r\n`;
    const isById = name === "cas" || name === "ms C" || name === "lease-set";
    if (isById) {
      const refusal = name === "lease-set" ? () => "NOT_STORED\r\n" : says;
      if (entry === undefined) return refusal("NOT_FOUND", "NF");
      if (holeOf(entry) !== id) return refusal("EXISTS", "EX");
      if (name === "lease-set" && entry.kind === "value") return "NOT_STORED\r\n";
      if (entry.kind !== "value") {
        // The one write that nothing cuts.
        const deadlineSec = this.#deadline(seconds);
        const filled: Entry = { kind: "value", value, deadlineSec, version: ++this.#version };
        this.#records.set(key, { entry: filled, dirtyUntilSec: 0 });
        return says("STORED", "HD");
      }
    } else if (name === "add") {
      if (entry !== undefined && entry.kind !== "lease") return "NOT_STORED\r\n";
    } else if (name === "replace" || name === "append" || name === "prepend") {
      if (entry?.kind === "lease") this.#renew(key, entry);
      if (entry === undefined || entry.kind === "lease") return "NOT_STORED\r\n";
      if (name !== "replace") {
        const joined = name === "append" ? entry.value + value : value + entry.value;
        this.#put(key, { ...entry, kind: "value", value: joined, version: ++this.#version });
        return "STORED\r\n";
      }
    }
    const deadlineSec = this.#cut(key, seconds);
    const record = this.#record(key);
    if (entry?.kind === "lease") {
      record.dirtyUntilSec = Math.max(record.dirtyUntilSec, entry.deadlineSec);
    }
    record.entry = { kind: "value", value, deadlineSec, version: ++this.#version };
    return says("STORED", "HD");
  }
}

function holeOf({ version }: { readonly version: number }): string {
  return `id${version}`;
}

function hole(versioned: { readonly version: number }): Part {
  return { hole: holeOf(versioned) };
}

function shown(key: string, entry: Entry, withId: boolean): Part[] {
  const head = `VALUE ${key} 0 ${entry.value.length}`;
  const tail = `\r\n${entry.value}\r\nEND\r\n`;
  return withId ? [`${head} `, hole(entry), tail] : [head + tail];
}

/** The command as a client writes it. */
export function leaseRequestOf({ name, key, seconds, value, id, owner }: LeaseCommand): Part[] {
  const block = `${value.length}\r\n${value}\r\n`;
  const withId = (head: string, tail: string): Part[] => [head, { hole: id }, tail];
  switch (name) {
    case "gat":
    case "gats":
    case "getss":
    case "deletess":
      return [`${name} ${seconds} ${key}\r\n`];
    case "touch":
      return [`touch ${key} ${seconds}\r\n`];
    case "incr":
      return [`incr ${key} 1\r\n`];
    case "mg N":
      return [`mg ${key} N${STUB_SEC} c\r\n`];
    case "ms":
      return [`ms ${key} ${value.length} T${seconds}\r\n${value}\r\n`];
    case "ms C":
      return withId(`ms ${key} ${value.length} T${seconds} C`, `\r\n${value}\r\n`);
    case "md C":
      return withId(`md ${key} C`, "\r\n");
    case "cas":
      return withId(`cas ${key} 0 ${seconds} ${value.length} `, `\r\n${value}\r\n`);
    case "lease-set":
      return withId(`lease-set ${key} `, ` 0 ${seconds} ${block}`);
    case "set":
    case "add":
    case "replace":
    case "append":
    case "prepend":
      return [`${name} ${key} 0 ${seconds} ${block}`];
    case "flush_all":
    case "quarantine on":
    case "quarantine off":
      return [`${name}\r\n`];
    case "token get":
      return [`token get ${key} ${owner}\r\n`];
    case "token release":
      return withId(`token release ${key} `, "\r\n");
    case "token drop":
      return [`token drop ${key} unsafe\r\n`];
    case "token drop id":
      return withId(`token drop ${key} `, " unsafe\r\n");
    default:
      return [`${name} ${key}\r\n`];
  }
}
