import { RowKind } from "../../../store/row_cache.ts";

/** How and when a value was cached. */
export interface Provenance {
  /** Of the request that cached it. */
  readonly kind: RowKind;
  /** In Unix milliseconds. */
  readonly unixMs: number;
}

/** Slots of the table, a power of two: about as many keys are known. */
const SLOTS = 2 ** 16;
/** FNV-1a. */
const HASH_BASIS = 0x811c9dc5;
const HASH_PRIME = 0x01000193;

/** Remembers how values were cached, for messages about wrong ones. Of two keys in one slot it knows the later. */
export class ProvenanceTable {
  readonly #hashes = new Uint32Array(SLOTS);
  /** 0: the slot is free. */
  readonly #kinds = new Uint8Array(SLOTS);
  readonly #times = new Float64Array(SLOTS);

  note(key: string, kind: RowKind, unixMs: number): void {
    const hash = hashOf(key);
    const slot = hash % SLOTS;
    this.#hashes[slot] = hash;
    this.#kinds[slot] = kind;
    this.#times[slot] = unixMs;
  }

  /** @returns Null: it was cached before this table began, or another key has its slot. */
  of(key: string): Provenance | null {
    const hash = hashOf(key);
    const slot = hash % SLOTS;
    const kind = this.#kinds[slot]!;
    if (kind === 0 || this.#hashes[slot] !== hash) return null;
    return { kind: kind as RowKind, unixMs: this.#times[slot]! };
  }
}

const REQUESTS = new Map<RowKind, string>([
  [RowKind.READ, "a read"],
  [RowKind.STORE, "a store"],
  [RowKind.TOUCH, "a touch"],
  [RowKind.COUNT, "incr or decr"],
]);

/** Returns how a value was cached, for a message. @param provenance Null: that is not known. */
export function provenanceText(provenance: Provenance | null): string {
  if (provenance === null) return "cached at an unknown time";
  const { kind, unixMs } = provenance;
  return `cached by ${REQUESTS.get(kind)!} at ${new Date(unixMs).toISOString()}`;
}

function hashOf(key: string): number {
  let hash = HASH_BASIS;
  for (let at = 0; at < key.length; at++) {
    hash = Math.imul(hash ^ key.charCodeAt(at), HASH_PRIME);
  }
  return hash >>> 0;
}
