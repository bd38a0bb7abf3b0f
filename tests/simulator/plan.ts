import { DATABASE_HOST } from "./database.ts";
import { randomFrom } from "../support/random.ts";

/** What a client asks for. */
export interface Request {
  /** Unique in the plan; the value that it writes is made of it. */
  readonly id: number;
  /** Pause before it, in milliseconds. */
  readonly pauseMs: number;
  readonly kind: "get" | "gets" | "getMany" | "uget" | "set" | "add" | "cas" | "delete" | "flush";
  /** Names of keys; one but for `getMany`. */
  readonly keys: readonly string[];
}

/** A client, which asks one request after the other. */
export interface ClientPlan {
  readonly name: string;
  /** Hosts in the order in which it tries them. */
  readonly hosts: readonly string[];
  /** How long it waits for a reply; null: until its connection breaks. */
  readonly patienceMs: number | null;
  /** Requests that it sends before it has the reply of the first. */
  readonly depth: number;
  readonly requests: readonly Request[];
}

/** Something that goes wrong. Times in milliseconds. */
export type Fault =
  & { readonly atMs: number }
  & (
    /** A process is killed, with its host or alone, and started again later. */
    | {
      readonly kind: "kill";
      readonly host: string;
      readonly downMs: number;
      readonly isSilent: boolean;
    }
    /** A process is stopped, and goes on later. */
    | { readonly kind: "stop"; readonly host: string; readonly forMs: number }
    /** Packets from one host to another do not arrive. */
    | {
      readonly kind: "cut";
      readonly from: string;
      readonly to: string;
      readonly isBothWays: boolean;
      readonly forMs: number;
    }
    /** Connections of a host break: the one with this number, modulo how many there are. */
    | { readonly kind: "reset"; readonly host: string; readonly number: number }
    /** What one end of a connection of a host sends does not arrive any more. */
    | { readonly kind: "silence"; readonly host: string; readonly number: number }
    /** Every packet takes longer. */
    | { readonly kind: "slow"; readonly byMs: number; readonly forMs: number }
    /** The wall clock of a host is set. */
    | { readonly kind: "wall"; readonly host: string; readonly byMs: number }
    /** Another program locks the database. */
    | { readonly kind: "lock"; readonly forMs: number }
  );

/** A host, and the server on it. */
export interface HostPlan {
  readonly name: string;
  readonly role: "origin" | "node";
  readonly options: readonly string[];
  /** How fast its clock runs beside virtual time. */
  readonly rate: number;
  /** The clock of its machine at virtual time 0. */
  readonly bootMs: number;
}

/** A run: what a seed stands for. Without some of its requests and faults it is a plan, too. */
export interface Plan {
  readonly seed: number;
  /** The features that the seed has switched on, for people. */
  readonly features: string;
  readonly hosts: readonly HostPlan[];
  /** SQLite, or the model of PostgreSQL. */
  readonly database: "sqlite" | "model";
  readonly latencyMs: number;
  readonly splitShare: number;
  /** When everything that went wrong is mended. */
  readonly healMs: number;
  readonly keys: readonly string[];
  readonly clients: readonly ClientPlan[];
  readonly faults: readonly Fault[];
}

/** How much a run does. */
export interface Size {
  /** Requests of all clients together, about. */
  readonly requests: number;
}

const FAULT_KINDS = ["kill", "stop", "cut", "reset", "silence", "slow", "wall", "lock"] as const;
const REQUEST_KINDS = [
  "get",
  "gets",
  "getMany",
  "uget",
  "set",
  "add",
  "cas",
  "delete",
  "flush",
] as const;
/** How often each kind is asked for, where the seed has it. */
const WEIGHTS: Readonly<Record<typeof REQUEST_KINDS[number], number>> = {
  get: 8,
  gets: 4,
  getMany: 3,
  uget: 1,
  set: 4,
  add: 2,
  cas: 2,
  delete: 2,
  flush: 0.05,
};

const READS: ReadonlySet<string> = new Set(["get", "gets", "getMany", "uget"]);
/** Clocks that drift: together they differ by less than `--member-drift`. */
const RATES = [0.955, 1, 1.045];
/** Share of cuts that are between servers. */
const SERVER_SHARE = 0.8;

/** Draws a plan. */
class Draw {
  readonly #random: () => number;
  readonly #seed: number;
  readonly #features: string[] = [];

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = randomFrom(seed);
  }

  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  of<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)]!;
  }

  has(share: number): boolean {
    return this.#random() < share;
  }

  /** A time around `ms`: mostly shorter, sometimes much longer. */
  time(ms: number): number {
    return -Math.log(1 - this.#random()) * ms;
  }

  /** Some of the values, at least one. */
  some<Value>(values: readonly Value[]): readonly Value[] {
    const share = this.of([0.3, 0.6, 1]);
    const chosen = values.filter(() => this.has(share));
    return chosen.length === 0 ? [this.of(values)] : chosen;
  }

  plan({ requests }: Size): Plan {
    const memberMs = this.of([200, 500, 2000]);
    const hosts = this.#hosts(memberMs);
    const database = this.of(["sqlite", "model"] as const);
    this.#features.push(database);
    const keys = Array.from({ length: this.of([1, 2, 4, 8, 16]) }, (_, at) => `k${at}`);
    const clientCount = this.of([4, 8, 8, 16, 32]);
    const pauseMs = memberMs * this.of([0.02, 0.1, 0.5]);
    const perClient = Math.ceil(requests / clientCount);
    const healMs = Math.max(2000, perClient * (pauseMs + 5));
    const clients = this.#clients(clientCount, perClient, pauseMs, hosts, keys);
    const names = [
      ...hosts.map(({ name }) => name),
      ...database === "model" ? [DATABASE_HOST] : [],
    ];
    const faults = this.#faults(names, clients, healMs, memberMs);
    return {
      seed: this.#seed,
      features: this.#features.join(" "),
      hosts,
      database,
      latencyMs: this.of([0.02, 0.2, 2]),
      splitShare: this.of([0, 0, 0.1, 0.5]),
      healMs,
      keys,
      clients,
      faults,
    };
  }

  #hosts(memberMs: number): readonly HostPlan[] {
    const origins = ["origin1", "origin2"].slice(0, this.of([1, 1, 2]));
    const nodes = ["node1", "node2", "node3"].slice(0, this.of([0, 1, 2, 2, 3]));
    const drifts = this.has(0.5);
    this.#features.push(`origins=${origins.length}`, `nodes=${nodes.length}`, `member=${memberMs}`);
    if (drifts) this.#features.push("drift");
    const more = this.has(0.3) ? ["--db-timeout", "500"] : [];
    const clock = () => ({
      rate: drifts ? this.of(RATES) : 1,
      bootMs: this.below(1_000_000),
    });
    const addresses = origins.map((name) => `${name}:11211`).join(",");
    return [
      ...origins.map((name) => ({
        name,
        role: "origin" as const,
        options: ["--standby", "--member-time", `${memberMs}`, ...more],
        ...clock(),
      })),
      ...nodes.map((name) => ({
        name,
        role: "node" as const,
        options: ["--origin", addresses, "--node-name", name, ...more],
        ...clock(),
      })),
    ];
  }

  #clients(
    count: number,
    perClient: number,
    pauseMs: number,
    hosts: readonly HostPlan[],
    keys: readonly string[],
  ): readonly ClientPlan[] {
    const kinds = new Set(this.some(REQUEST_KINDS)).add("get").add("set");
    this.#features.push(`requests=${[...kinds].join("+")}`);
    const writes = this.of([0.1, 0.5, 1]);
    const weights = [...kinds].map((kind) => (
      [kind, WEIGHTS[kind] * (READS.has(kind) ? 1 : writes)] as const
    ));
    const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
    const kindOf = (): Request["kind"] => {
      let at = this.#random() * total;
      return weights.find(([, weight]) => (at -= weight) < 0)?.[0] ?? "get";
    };
    const isDeep = this.has(0.3);
    let id = 0;
    return Array.from({ length: count }, (_, number) => {
      const first = this.below(hosts.length);
      const requests = Array.from({ length: perClient }, () => {
        const kind = kindOf();
        const chosen = kind === "getMany" ? this.some(keys).slice(0, 8) : [this.of(keys)];
        return { id: id++, pauseMs: this.time(pauseMs), kind, keys: chosen };
      });
      return {
        name: `c${number}`,
        hosts: [...hosts.slice(first), ...hosts.slice(0, first)].map(({ name }) => name),
        patienceMs: this.of([300, 2000, null]),
        depth: isDeep ? this.of([1, 2, 8]) : 1,
        requests,
      };
    });
  }

  #faults(
    names: readonly string[],
    clients: readonly ClientPlan[],
    healMs: number,
    memberMs: number,
  ): readonly Fault[] {
    const kinds = this.has(0.05) ? [] : this.some(FAULT_KINDS);
    this.#features.push(`faults=${kinds.join("+") || "none"}`);
    if (kinds.length === 0) return [];
    const everyMs = memberMs * this.of([0.3, 1, 4]);
    const lastsMs = memberMs * this.of([0.2, 1, 3]);
    const faults: Fault[] = [];
    for (let atMs = 100 + this.time(everyMs); atMs < healMs; atMs += this.time(everyMs)) {
      faults.push(this.#fault(this.of(kinds), atMs, names, clients, lastsMs));
    }
    return faults;
  }

  #fault(
    kind: Fault["kind"],
    atMs: number,
    names: readonly string[],
    clients: readonly ClientPlan[],
    lastsMs: number,
  ): Fault {
    const host = this.of(names);
    const forMs = this.time(lastsMs);
    const number = this.below(1000);
    switch (kind) {
      case "kill":
        return { kind, atMs, host, downMs: forMs, isSilent: this.has(0.3) };
      case "stop":
        return { kind, atMs, host, forMs };
      case "cut": {
        const servers = names.filter((each) => each !== host);
        const isInner = servers.length > 0 && this.has(SERVER_SHARE);
        const other = this.of(isInner ? servers : clients.map(({ name }) => name));
        return { kind, atMs, from: host, to: other, isBothWays: this.has(0.6), forMs };
      }
      case "reset":
      case "silence":
        return { kind, atMs, host, number };
      case "slow":
        return { kind, atMs, byMs: this.time(20), forMs };
      case "wall":
        return { kind, atMs, host, byMs: (this.#random() - 0.5) * 20_000_000 };
      case "lock":
        return { kind, atMs, forMs };
    }
  }
}

/** Returns the plan of a seed. */
export function planOf(seed: number, size: Size): Plan {
  return new Draw(seed).plan(size);
}
