import type { LoadOptions } from "../../lib/client/mod.ts";

/** What a client asks for. */
export interface Request {
  /** Unique in the plan; the value that it writes is made of it. */
  readonly id: number;
  /** Pause before it, in milliseconds. */
  readonly pauseMs: number;
  readonly kind:
    | ("get" | "gets" | "getMany" | "uget" | "set" | "add" | "cas" | "delete" | "flush")
    /** Writes under an update token, again and again until the outcome is known. */
    | "uput"
    /** Writes to a table without a server, and waits until an origin has followed the change. */
    | "direct"
    /** Reads the views of single articles. */
    | "view"
    /** Reads the view that has all articles. */
    | "list";
  /** Names of keys; one but for `getMany` and `view`, none for `list`. */
  readonly keys: readonly string[];
}

/** Kinds of requests that only read. */
export const READS: ReadonlySet<Request["kind"]> = new Set(
  ["get", "gets", "getMany", "uget", "view", "list"] as const,
);

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

/** What an application asks the client library for. */
export interface ItemRequest {
  readonly pauseMs: number;
  readonly kind: "load" | "put" | "lock";
  readonly key: string;
  /** Of `put`. */
  readonly form: "leases" | "tokens";
  /**
   * How the commit of a `put` ends. The application does not learn that it is made: before (`lost`), or some time after
   * the connection was lost (`late`).
   */
  readonly outcome: "committed" | "rolledBack" | "lost" | "late";
  /** How long the transaction takes before it is committed. */
  readonly commitMs: number;
}

/** An application: a process that uses the client library. */
export interface ApplicationPlan {
  readonly name: string;
  readonly servers: readonly string[];
  /** Requests in progress at the same time. */
  readonly fibers: number;
  readonly replyMs: number;
  readonly whenDown: "error" | "miss";
  readonly load: LoadOptions;
  readonly requests: readonly ItemRequest[];
}

/** From one host to another. */
export interface Way {
  readonly from: string;
  readonly to: string;
}

/** A connection of a host. */
export interface Connection {
  readonly host: string;
  /** Its number, modulo how many there are. */
  readonly number: number;
  /** Instead, the one on which a packet of another server arrives next: as soon as it has arrived. */
  readonly isAmidst: boolean;
}

/** Something that goes wrong. Times in milliseconds. */
export type Fault =
  & { readonly atMs: number }
  & (
    /**
     * A process is killed, with its host or alone, and started again later. `isAmidst`: as soon as an application
     * begins a commit that takes longer than that.
     */
    | {
      readonly kind: "kill";
      readonly host: string;
      readonly downMs: number;
      readonly isSilent: boolean;
      readonly isAmidst: boolean;
    }
    /** An operator starts an origin anew, with `--take-over`. */
    | { readonly kind: "takeOver"; readonly host: string }
    /**
     * A cache is shut down, and started later with its snapshot, of which a bit may have changed. Its wall clock is off
     * until its next start.
     */
    | {
      readonly kind: "restart";
      readonly host: string;
      readonly downMs: number;
      readonly wallByMs: number;
      readonly isRotten: boolean;
    }
    /** The disk with the journal and the snapshot fails. */
    | { readonly kind: "disk"; readonly host: string; readonly forMs: number }
    /** A process is stopped, and goes on later. */
    | { readonly kind: "stop"; readonly host: string; readonly forMs: number }
    /** Packets from one host to another do not arrive. */
    | Way & { readonly kind: "cut"; readonly isBothWays: boolean; readonly forMs: number }
    /** A connection of a host breaks. */
    | Connection & { readonly kind: "reset" }
    /** What one end of a connection of a host sends does not arrive any more. */
    | Connection & { readonly kind: "silence" }
    /** Packets of one way take longer; null: all do. */
    | {
      readonly kind: "slow";
      readonly way: Way | null;
      readonly byMs: number;
      readonly forMs: number;
    }
    /** The wall clock of a host is set. */
    | { readonly kind: "wall"; readonly host: string; readonly byMs: number }
    /** Another program locks the database. */
    | { readonly kind: "lock"; readonly forMs: number }
    /** A migration gives a table another column. */
    | { readonly kind: "column"; readonly table: Table }
    /** A migration puts a copy of a table, without its triggers, into its place; `init` runs later. */
    | { readonly kind: "rebuild"; readonly table: Table; readonly forMs: number }
    /** The slot of the log is dropped, or the log has grown beyond its bound. */
    | { readonly kind: "slot"; readonly isDropped: boolean }
    /** A stand-by takes the place of the database, with or without its slots. */
    | {
      readonly kind: "failover";
      readonly hasSlots: boolean;
      readonly isSilent: boolean;
      readonly downMs: number;
    }
    /** The log is sent late. */
    | { readonly kind: "late"; readonly forMs: number }
  );

const COMMON_FAULTS = ["kill", "stop", "cut", "reset", "silence", "slow"] as const;
/** Of rows. */
export const ROW_FAULTS = [...COMMON_FAULTS, "wall", "lock", "takeOver"] as const;
/** Of a database whose changes are followed. */
export const FOLLOWED_FAULTS = [...ROW_FAULTS, "column", "rebuild"] as const;
/** Of the model, whose log is followed. */
export const LOG_FAULTS = [
  ...COMMON_FAULTS,
  "wall",
  "takeOver",
  "column",
  "rebuild",
  "slot",
  "failover",
  "late",
] as const;
/** Of caches, and applications that use them. */
export const ITEM_FAULTS = [...COMMON_FAULTS, "restart", "disk"] as const;
/** All kinds. */
export const FAULTS: readonly Fault["kind"][] = [
  ...new Set([...FOLLOWED_FAULTS, ...LOG_FAULTS, ...ITEM_FAULTS]),
];

/** The table of rows, or that of views. */
export type Table = "kv" | "article";

/** A host, and the server on it. */
export interface HostPlan {
  readonly name: string;
  readonly role: "origin" | "node" | "cache";
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
  /** Whether the origin follows changes that other programs make in the database. */
  readonly follows: boolean;
  /** Keys of articles, which other programs write, and which views show; none: there are no views. */
  readonly articles: readonly string[];
  /** SQLite, or the model of PostgreSQL. */
  readonly database: "sqlite" | "model";
  /** Of the model: longest time between a commit in the log and its being seen by reads, in milliseconds. */
  readonly commitMs: number;
  readonly latencyMs: number;
  readonly splitShare: number;
  /** Share of packets that are sent twice, since the first one is lost. */
  readonly lossShare: number;
  /** When everything that went wrong is mended. */
  readonly healMs: number;
  readonly keys: readonly string[];
  readonly clients: readonly ClientPlan[];
  readonly applications: readonly ApplicationPlan[];
  readonly faults: readonly Fault[];
}

/** How much a run does. */
export interface Size {
  /** Requests of all clients together, about. */
  readonly requests: number;
  /** Whether applications may use the client library: see `mapped`. */
  readonly hasLibrary: boolean;
  /** How long the requests take together, in hours of virtual time; null: as is drawn, some minutes. */
  readonly hours: number | null;
}
