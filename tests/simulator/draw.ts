import { randomFrom } from "../support/random.ts";
import { DATABASE_HOST, GRACE_MS } from "./database.ts";
import { DIRECT_KEY } from "./rows_check.ts";
import {
  type ClientPlan,
  type Fault,
  FOLLOWED_FAULTS,
  type HostPlan,
  ITEM_FAULTS,
  type ItemRequest,
  LOG_FAULTS,
  type Plan,
  READS,
  type Request,
  ROW_FAULTS,
  type Size,
  type Way,
} from "./plan.ts";
import { pathOn, SNAPSHOT } from "./machine.ts";

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
  "uput",
] as const;
/** How often each kind is asked for, where the seed has it. */
const WEIGHTS: Readonly<Record<Request["kind"], number>> = {
  get: 8,
  gets: 4,
  getMany: 3,
  uget: 1,
  set: 4,
  add: 2,
  cas: 2,
  delete: 2,
  flush: 0.05,
  uput: 2,
  direct: 2,
  view: 6,
  list: 1,
};

/** How much more often they are asked for where the log has what matters. */
const LOGGED_DIRECTS = 3;

/** Clocks that drift: together they differ by just less than `--member-drift`. */
const RATES = [0.953, 1, 1.047];
const OUTCOMES = [
  ...["committed", "committed", "committed", "committed", "committed"] as const,
  ...["rolledBack", "lost"] as const,
] as const;
const TOKEN_OUTCOMES = [...OUTCOMES, "late"] as const;
const TABLES = ["kv", "article"] as const;
/** Share of seeds with applications, whose requests need half the time of those of rows. */
const ITEMS_SHARE = 0.35;
const ITEM_REQUESTS = 2;
/** Share of ways that fail between servers; the others begin or end at clients. */
const SERVER_SHARE = 0.8;
/** Share of takeovers because the other origin is unwell. */
const REPLACED_SHARE = 0.8;
/** Runs whose origins and nodes compare what they serve with the database. */
const VERIFIED_SHARE = 0.3;
/** A client that only reads asks so many times as often: old rows are served for a few milliseconds. */
const READER_REQUESTS = 3;
/** About so many faults are in each run that has any. */
const FAULTS_MIN = 10;
/** In runs of hours there are not more. */
const FAULTS_MAX = 200;
/** Times of a membership in runs of hours: an origin renews it ten times in each. */
const LONG_MEMBER_MS = [2000, 10_000];
/** Requests of all clients within the time of a membership. */
const MEMBER_REQUESTS = [60, 200, 600];
/** In a train of faults: pause before the next one, as a share of the time that matters to the system. */
const TRAIN_SHARE = 0.1;
/** A writer with an update token commits before a cache's quarantine is over, in milliseconds. */
const COMMIT_MS_MAX = 20_000;
/** A cache can be started again, and filled, during a long commit. */
const COMMIT_MS_MIN = 1000;
/** Share of restarts after which a machine has not set its wall clock yet, and how far it is behind, about. */
const SLOW_BOOT_SHARE = 0.3;
const BOOT_BEHIND_MS = 60_000;
/** In a burst of requests: pause before the next one. */
const BURST_PAUSE_MS = 2;
/** Share of the time during which a key has the token of a long transaction. */
const KEY_BUSY = 0.3;

/** Hosts of a system. */
interface FaultyHosts {
  /** Those that may fail. */
  readonly names: readonly string[];
  /** Those that they may be cut off from, too. */
  readonly others: readonly string[];
  readonly origins: readonly string[];
  readonly nodes: readonly string[];
  readonly caches: readonly string[];
}

/** Draws a plan. */
class Draw {
  readonly #random: () => number;
  readonly #seed: number;
  readonly #features: string[] = [];
  /** The origin that serves, as far as an operator knows. */
  #active = "origin1";

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

  /** A few of the values, so that each is frequent; or all of them. */
  #few<Value>(values: readonly Value[]): readonly Value[] {
    const count = this.of([1, 2, 3, 4, 6, values.length]);
    const left = [...values];
    while (left.length > count) left.splice(this.below(left.length), 1);
    return left;
  }

  plan({ requests, hasLibrary, hours }: Size): Plan {
    const spanMs = hours === null ? null : hours * 3_600_000;
    if (hasLibrary && this.has(ITEMS_SHARE)) {
      return this.#itemsPlan(ITEM_REQUESTS * requests, spanMs);
    }
    return this.#rowsPlan(requests, spanMs);
  }

  /** A system with a database behind origins and nodes. */
  #rowsPlan(requests: number, spanMs: number | null): Plan {
    const memberMs = this.of(spanMs === null ? [200, 500, 2000] : LONG_MEMBER_MS);
    const hosts = this.#hosts(memberMs);
    const database = this.of(["sqlite", "model"] as const);
    const follows = this.has(database === "model" ? 0.5 : 0.4);
    const hasViews = follows && database === "sqlite" && this.has(0.6);
    const lossShare = follows && database === "model" ? this.of([0, 0.002, 0.02]) : 0;
    const commitMs = follows && database === "model" ? this.of([0.2, 20, 200]) : 0;
    const articles = hasViews ? ["a0", "a1", "a2"].slice(0, this.of([1, 2, 3])) : [];
    this.#features.push(database, ...follows ? ["follow"] : [], ...hasViews ? ["views"] : []);
    // Rows that no other program writes are atomic, whether the log is followed or not.
    const letters = !follows ? "k" : database === "model" ? "dk" : "d";
    const keys = Array.from(
      { length: this.of([1, 2, 4, 8, 8, 16]) },
      (_, at) => `${letters[at % letters.length]}${at}`,
    );
    const clientCount = this.of([4, 8, 8, 16, 32]);
    const drawnMs = memberMs * clientCount / this.of(MEMBER_REQUESTS);
    const pauseMs = spanMs === null ? drawnMs : spanMs * clientCount / requests;
    const perClient = Math.ceil(requests / clientCount);
    const healMs = Math.max(2000, perClient * (pauseMs + 5));
    const served = hosts.map((host) =>
      follows && host.role === "origin" ? withOptions(host, "--follow") : host
    );
    const clients = this.#clients(clientCount, perClient, pauseMs, served, keys, {
      follows,
      articles,
      database,
    });
    const names = [
      ...hosts.map(({ name }) => name),
      ...database === "model" ? [DATABASE_HOST] : [],
    ];
    const others = clients.map(({ name }) => name);
    const named = (wanted: HostPlan["role"]): readonly string[] => (
      hosts.filter(({ role }) => role === wanted).map(({ name }) => name)
    );
    const origins = named("origin");
    const nodes = named("node");
    const logged = database === "model" ? LOG_FAULTS : FOLLOWED_FAULTS;
    const allowed = follows ? logged : ROW_FAULTS;
    const faults = this.#faults(
      allowed,
      { names, others, origins, nodes, caches: [] },
      healMs,
      memberMs,
    );
    const isVerified = this.has(VERIFIED_SHARE);
    if (isVerified) this.#features.push("verify");
    return {
      ...this.#common(faults),
      hosts: isVerified ? served.map((host) => withOptions(host, "--verify", "20")) : served,
      database,
      lossShare,
      commitMs,
      follows,
      articles,
      healMs,
      keys,
      clients,
      applications: [],
    };
  }

  /** Caches, and applications that keep values of their own database in them. */
  #itemsPlan(requests: number, spanMs: number | null): Plan {
    const tokens = this.of([0, 0.5, 1]);
    const durability = this.of(["volatile", "journal", "journal"]);
    const given = durability === "journal" ? ["--state-dir", "state"] : ["--tokens", "volatile"];
    const options = [...tokens > 0 ? given : [], ...this.#threads()];
    const caches = ["cache1", "cache2", "cache3"].slice(0, this.of([1, 1, 2, 3]));
    const hosts = caches.map((name) => ({
      name,
      role: "cache" as const,
      options: [...options, "--snapshot", pathOn(name, SNAPSHOT)],
      rate: 1,
      bootMs: this.below(1_000_000),
    }));
    const drawnMs = this.of([5000, 10_000, 10_000, 60_000, 300_000]);
    const healMs = spanMs ?? drawnMs;
    const count = this.of([2, 4, 8]);
    const fibers = this.of([1, 2, 8]);
    const perApplication = Math.ceil(requests / count);
    const pauseMs = healMs * fibers / perApplication;
    const unitMs = healMs / this.of([20, 60]);
    const commitMs = Math.min(Math.max(unitMs * this.of([1, 4]), COMMIT_MS_MIN), COMMIT_MS_MAX);
    const busy = requests * commitMs / healMs;
    this.#features.push(`caches=${caches.length}`, `applications=${count}`, `tokens=${tokens}`);
    if (tokens > 0) this.#features.push(durability);
    const applications = Array.from({ length: count }, (_, number) => ({
      name: `app${number}`,
      servers: caches.map((name) => `${name}:11211`),
      fibers,
      replyMs: this.of([100, 1000]),
      whenDown: this.of(["error", "miss"] as const),
      load: {
        ttlSec: this.of([2, 600]),
        leaseSec: this.of([1, 10]),
        waitMs: this.of([500, 10_000]),
        absentSec: this.of([0, 10]),
      },
      requests: this.#itemRequests(perApplication, pauseMs, tokens, { busy, commitMs }),
    }));
    const others = applications.map(({ name }) => name);
    // Caches fail as often as applications together.
    const copies = Math.ceil(others.length / caches.length);
    const both = [...new Array(copies).fill(caches).flat(), ...others];
    // A writer that is killed leaves its token, and the key is never cached again.
    const names = this.of([caches, both]);
    const faults = this.#faults(
      ITEM_FAULTS,
      { names, others, origins: [], nodes: [], caches },
      healMs,
      unitMs,
    );
    return {
      ...this.#common(faults),
      hosts,
      database: "model",
      lossShare: 0,
      commitMs: 0,
      follows: false,
      articles: [],
      healMs,
      keys: [],
      clients: [],
      applications,
    };
  }

  /**
   * @param busy Writers that are within a long transaction at the same time, if all puts have one.
   * @param commitMs Its time.
   */
  #itemRequests(
    count: number,
    pauseMs: number,
    tokens: number,
    { busy, commitMs }: { readonly busy: number; readonly commitMs: number },
  ): readonly ItemRequest[] {
    const puts = this.of([0.03, 0.2]);
    const keyCount = this.of([1, 2, 8]);
    // A key on which there is always a token is never cached.
    const longShare = Math.min(0.5, KEY_BUSY * keyCount / (busy * puts));
    const burstShare = this.of([0, 0.8]);
    const hotShare = this.of([0, 0.7]);
    return Array.from({ length: count }, () => {
      const isToken = this.has(tokens);
      const number = this.has(hotShare) ? 0 : this.below(keyCount);
      const isLock = this.has(0.1);
      return {
        pauseMs: this.time(this.has(burstShare) ? BURST_PAUSE_MS : pauseMs / (1 - burstShare)),
        kind: isLock ? "lock" : this.has(puts) ? "put" : "load",
        key: `${isLock ? "l" : isToken ? "t" : "i"}${number}`,
        form: isToken ? "tokens" : "leases",
        commitMs: this.has(longShare) ? commitMs : this.of([0, 0, 100]),
        outcome: this.of(isToken ? TOKEN_OUTCOMES : OUTCOMES),
      };
    });
  }

  #common(
    faults: readonly Fault[],
  ): Pick<Plan, "seed" | "features" | "latencyMs" | "splitShare" | "faults"> {
    return {
      seed: this.#seed,
      features: this.#features.join(" "),
      latencyMs: this.of([0.02, 0.2, 2]),
      splitShare: this.of([0, 0, 0.1, 0.5]),
      faults,
    };
  }

  /** Options of a server's threads. Servers with several read without the mutex, even when only one thread serves. */
  #threads(): readonly string[] {
    return this.has(0.5) ? ["-t", "2"] : [];
  }

  #hosts(memberMs: number): readonly HostPlan[] {
    const origins = ["origin1", "origin2"].slice(0, this.of([1, 2]));
    const nodes = ["node1", "node2", "node3"].slice(0, this.of([0, 1, 2, 2, 3]));
    const drifts = this.has(0.7);
    // An origin's clock that is fast, beside a slow one of a node, leaves the least margin.
    const [originRates, nodeRates] = this.has(0.2)
      ? [RATES, RATES]
      : [RATES.slice(2), RATES.slice(0, 1)];
    this.#features.push(`origins=${origins.length}`, `nodes=${nodes.length}`, `member=${memberMs}`);
    if (drifts) this.#features.push("drift");
    const more = [...this.has(0.3) ? ["--db-timeout", "500"] : [], ...this.#threads()];
    const clock = (rates: readonly number[]): Pick<HostPlan, "rate" | "bootMs"> => ({
      rate: drifts ? this.of(rates) : 1,
      bootMs: this.below(1_000_000),
    });
    const addresses = origins.map((name) => `${name}:11211`).join(",");
    return [
      ...origins.map((name) => ({
        name,
        role: "origin" as const,
        options: [
          "--member-time",
          `${memberMs}`,
          ...more,
        ],
        ...clock(originRates),
      })),
      ...nodes.map((name) => ({
        name,
        role: "node" as const,
        options: ["--origin", addresses, "--node-name", name, ...more],
        ...clock(nodeRates),
      })),
    ];
  }

  #clients(
    count: number,
    perClient: number,
    pauseMs: number,
    hosts: readonly HostPlan[],
    keys: readonly string[],
    { follows, articles, database }: Pick<Plan, "follows" | "articles" | "database">,
  ): readonly ClientPlan[] {
    const kinds = new Set<Request["kind"]>(this.some(REQUEST_KINDS)).add("get").add("set");
    if (follows) kinds.add("direct");
    if (articles.length > 0) kinds.add("view").add("list");
    this.#features.push(`requests=${[...kinds].join("+")}`);
    const writes = this.of([0.1, 0.5, 1]);
    const directs = database === "model" ? LOGGED_DIRECTS : 1;
    const weights = [...kinds].map((kind) => (
      [
        kind,
        WEIGHTS[kind] * (READS.has(kind) ? 1 : writes) * (kind === "direct" ? directs : 1),
      ] as const
    ));
    const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
    const kindOf = (): Request["kind"] => {
      let at = this.#random() * total;
      return weights.find(([, weight]) => (at -= weight) < 0)?.[0] ?? "get";
    };
    const isDeep = this.has(0.3);
    const firstNode = hosts.findIndex(({ role }) => role === "node");
    // A client that writes to a server which is cut off waits, and sees nothing of the rows in its cache.
    const readerShare = this.of([0, 0.4, 0.6]);
    // A read of a key that the server lacks waits, too: one key at a time.
    const readKinds = [...kinds].filter((kind) =>
      READS.has(kind) && kind !== "uget" && kind !== "getMany"
    );
    let id = 0;
    return Array.from({ length: count }, (_, number) => {
      const isReader = this.has(readerShare);
      const first = isReader && firstNode >= 0 && this.has(0.7)
        ? firstNode + this.below(hosts.length - firstNode)
        : this.below(hosts.length);
      const more = isReader ? READER_REQUESTS : 1;
      const requests = Array.from({ length: more * perClient }, () => {
        const kind = isReader ? this.of(readKinds) : kindOf();
        const chosen = this.#keysOf(kind, keys, articles);
        return { id: id++, pauseMs: this.time(pauseMs / more), kind, keys: chosen };
      });
      return {
        name: `c${number}`,
        hosts: [...hosts.slice(first), ...hosts.slice(0, first)].map(({ name }) => name),
        patienceMs: isReader ? pauseMs / more + 10 : this.of([300, 2000, null]),
        depth: isDeep ? this.of([1, 2, 8]) : 1,
        requests,
      };
    });
  }

  #keysOf(
    kind: Request["kind"],
    keys: readonly string[],
    articles: readonly string[],
  ): readonly string[] {
    switch (kind) {
      case "getMany":
        return this.some(keys).slice(0, 8);
      case "view":
        return this.some(articles);
      case "list":
        return [];
      case "direct":
        return [this.of([...keys, ...articles].filter((key) => DIRECT_KEY.test(key)))];
      default:
        return [this.of(keys)];
    }
  }

  /** @param unitMs A time that matters to the system. */
  #faults(
    allowed: readonly Fault["kind"][],
    hosts: FaultyHosts,
    healMs: number,
    unitMs: number,
  ): readonly Fault[] {
    const kinds = this.has(0.05) ? [] : this.#few(allowed);
    this.#features.push(`faults=${kinds.join("+") || "none"}`);
    if (kinds.length === 0) return [];
    const drawnMs = Math.min(unitMs * this.of([0.5, 1, 3, 10]), healMs / FAULTS_MIN);
    const everyMs = Math.max(drawnMs, healMs / FAULTS_MAX);
    const lastsMs = unitMs * this.of([0.2, 1, 3]);
    // Faults that follow one another at once meet a system in the midst of what the first one has begun.
    const trainShare = this.of([0, 0.3, 0.6]);
    const names = this.has(0.5) ? this.some(hosts.names) : hosts.names;
    const faults: Fault[] = [];
    for (let atMs = 100 + this.time(everyMs); atMs < healMs;) {
      // About the time that a right to serve, or a membership, lasts: a little less, or a little more.
      const forMs = this.has(0.3) ? unitMs * (0.9 + 0.5 * this.#random()) : this.time(lastsMs);
      const kind = this.of(kinds);
      if (kind === "takeOver" && hosts.origins.length > 1 && this.has(REPLACED_SHARE)) {
        faults.push(...this.#replacement(atMs, hosts, unitMs));
        // Else the next fault ends the new origin before it serves.
        atMs += 3 * unitMs + GRACE_MS;
      } else {
        const fault = this.#fault(kind, atMs, { ...hosts, names }, forMs, unitMs);
        faults.push(fault);
        if (fault.kind === "disk" && this.has(0.5)) {
          faults.push(this.#killAmidst(atMs, fault.host));
        }
      }
      atMs += this.time(this.has(trainShare) ? TRAIN_SHARE * unitMs : everyMs);
    }
    return faults;
  }

  /** Has another origin serve, if there is one. @returns The one before, and the new one. */
  #replaceActive(origins: readonly string[]): readonly [before: string, now: string] {
    const before = this.#active;
    this.#active = origins.find((each) => each !== before) ?? before;
    return [before, this.#active];
  }

  /** An origin is stopped, or far from its database, for longer than its right lasts; an operator replaces it. */
  #replacement(atMs: number, { names, origins }: FaultyHosts, unitMs: number): readonly Fault[] {
    const [to, host] = this.#replaceActive(origins);
    const forMs = unitMs * (1.6 + this.time(1));
    const way = { from: DATABASE_HOST, to };
    // A takeover waits for the transactions of the origin before.
    const byMs = unitMs * (1.2 + this.#random()) + GRACE_MS;
    const ills: readonly Fault[] = [
      { kind: "stop", atMs, host: to, forMs },
      { kind: "slow", atMs, way, byMs, forMs: byMs + forMs },
      { kind: "cut", atMs, ...way, isBothWays: this.has(0.5), forMs },
    ];
    // Before SQLite the lock on the file says who serves.
    const ill = this.has(0.1) || !names.includes(DATABASE_HOST) ? ills[0]! : this.of(ills);
    const takenMs = atMs + this.time(unitMs * this.of([0.1, 0.5]));
    return [ill, { kind: "takeOver", atMs: takenMs, host }];
  }

  #killAmidst(atMs: number, host: string): Fault {
    const downMs = this.time(0.3 * COMMIT_MS_MIN);
    return { kind: "kill", atMs, host, downMs, isSilent: this.has(0.6), isAmidst: true };
  }

  #fault(
    kind: Fault["kind"],
    atMs: number,
    hosts: FaultyHosts,
    forMs: number,
    unitMs: number,
  ): Fault {
    const host = this.of(hosts.names);
    const number = this.below(1000);
    switch (kind) {
      case "kill":
        if (hosts.caches.length > 0 && this.has(0.5)) {
          return this.#killAmidst(atMs, this.of(hosts.caches));
        }
        // Nodes do not learn that their origin's host is gone, and serve what they have.
        if (hosts.nodes.length > 0 && this.has(0.5)) {
          const [active] = this.#replaceActive(hosts.origins);
          const isSilent = this.has(0.8);
          return { kind, atMs, host: active, downMs: forMs, isSilent, isAmidst: false };
        }
        return { kind, atMs, host, downMs: forMs, isSilent: this.has(0.4), isAmidst: false };
      case "takeOver":
        this.#active = this.of(hosts.origins);
        return { kind, atMs, host: this.#active };
      case "restart": {
        const wallByMs = this.has(SLOW_BOOT_SHARE) ? -this.time(BOOT_BEHIND_MS) : 0;
        return { kind, atMs, host, downMs: forMs, wallByMs, isRotten: this.has(0.1) };
      }
      case "stop":
        // The origin goes on without a node that is stopped for longer than its time lasts.
        if (hosts.nodes.length > 0 && this.has(0.5)) {
          return { kind, atMs, host: this.of(hosts.nodes), forMs: unitMs * (1.2 + this.time(0.4)) };
        }
        return { kind, atMs, host, forMs };
      case "disk":
        return { kind, atMs, host: this.of(hosts.caches), forMs };
      case "cut":
        // A node that cannot confirm a deletion serves what it has until its time is over.
        if (hosts.nodes.length > 0 && this.has(0.7)) {
          const way = { from: this.of(hosts.nodes), to: this.#active };
          const lastsMs = unitMs * (1.2 + this.time(0.5));
          return { kind, atMs, ...way, isBothWays: false, forMs: lastsMs };
        }
        return { kind, atMs, ...this.#way(host, hosts), isBothWays: this.has(0.5), forMs };
      case "reset":
      case "silence":
        return { kind, atMs, host, number, isAmidst: this.has(0.5) };
      case "slow": {
        if (this.has(0.5)) return { kind, atMs, way: null, byMs: this.time(20), forMs };
        const byMs = this.time(unitMs * this.of([0.1, 0.5, 1.5]));
        return { kind, atMs, way: this.#way(host, hosts), byMs, forMs };
      }
      case "wall":
        return { kind, atMs, host, byMs: (this.#random() - 0.5) * 20_000_000 };
      case "lock":
        return { kind, atMs, forMs };
      case "column":
        return { kind, atMs, table: this.of(TABLES) };
      case "rebuild":
        return { kind, atMs, table: this.of(TABLES), forMs };
      case "slot":
        return { kind, atMs, isDropped: this.has(0.5) };
      case "failover":
        return { kind, atMs, hasSlots: this.has(0.5), isSilent: this.has(0.3), downMs: forMs };
      case "late":
        return { kind, atMs, forMs };
    }
  }

  /** Draws a way from a host, or to it. */
  #way(host: string, { names, others, origins }: FaultyHosts): Way {
    const servers = [...new Set([...names, ...origins])].filter((each) => each !== host);
    const isInner = servers.length > 0 && this.has(SERVER_SHARE);
    const other = this.of(isInner ? servers : others);
    return this.has(0.5) ? { from: host, to: other } : { from: other, to: host };
  }
}

function withOptions(host: HostPlan, ...more: readonly string[]): HostPlan {
  return { ...host, options: [...host.options, ...more] };
}

/** Returns the plan of a seed. */
export function planOf(seed: number, size: Size): Plan {
  return new Draw(seed).plan(size);
}
