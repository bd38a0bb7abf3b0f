import type { Read } from "../../../lib/rows/flows/flows.ts";

/** A cache of one row, which clients fill under leases. */
export interface LeaseCache {
  /** A version; null: no value. */
  value: number | null;
  leaseId: number;
}

/** A client that reads such a cache. */
export interface LeaseReader {
  readonly name: string;
  /** idle, leased, waiting, read, ended */
  state: string;
  leaseId: number;
  read: Read | undefined;
}

/** The place of a cache. */
interface Place {
  readonly name: string;
  /** Whether it gives leases. */
  readonly isOpen: boolean;
  newLease(): number;
  note(text: string): void;
  /** Begins to read at the origin. */
  read(done: (read: Read) => void): void;
}

/** Takes a step of a reader: it takes the lease of an empty cache, reads at the origin, and fills the cache. */
export function stepOfReader(reader: LeaseReader, cache: LeaseCache, place: Place): void {
  switch (reader.state) {
    case "idle":
      if (cache.value !== null || cache.leaseId !== 0 || !place.isOpen) {
        reader.state = "ended";
        return;
      }
      place.note(`${reader.name} takes the lease of ${place.name}`);
      reader.leaseId = cache.leaseId = place.newLease();
      reader.state = "leased";
      return;
    case "leased":
      place.note(`${reader.name} asks the origin`);
      reader.state = "waiting";
      return place.read((read) => {
        reader.state = "read";
        reader.read = read;
      });
    default: {
      const { row, cacheable } = reader.read!;
      reader.state = "ended";
      if (cache.leaseId !== reader.leaseId) return;
      cache.leaseId = 0;
      if (!cacheable || row === null) return;
      place.note(`${reader.name} fills ${place.name} with version ${row.version}`);
      cache.value = row.version;
    }
  }
}
