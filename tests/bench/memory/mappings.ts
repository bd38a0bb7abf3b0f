/** Resident memory of a process by kind of mapping (Linux, x86-64). */

export const MAPPING_KINDS = ["store", "heap", "code", "malloc", "files", "rest"] as const;

/**
 * store: the shared memory of items and index; heap: the engine's, of all threads; code: what it
 * compiled; malloc: the C library's; files: the runtime's own code and data; rest: stacks, tables
 * beside the store, buffers.
 */
export type MappingKind = typeof MAPPING_KINDS[number];

/** Resident KiB by kind. */
export type Resident = Readonly<Record<MappingKind, number>>;

/**
 * Addresses are reserved up to what the memory limit may be raised to, which is 1 GiB at least.
 * Nothing else has as many.
 */
const STORE_BYTES_MIN = 512 * 1024 * 1024;
/** The engine's heap is made of such pages, at random addresses, below those that the system chooses. */
const HEAP_PAGE_BYTES = 256 * 1024;
const HEAP_ADDRESS_END = 0x7e00_0000_0000;

interface Mapping {
  readonly start: number;
  readonly end: number;
  readonly permissions: string;
  readonly name: string;
  residentKib: number;
}

/** @param smaps Content of `/proc/PID/smaps`. */
export function residentByKind(smaps: string): Resident {
  const mappings = parse(smaps);
  const store = storeOf(mappings);
  const resident = { store: 0, heap: 0, code: 0, malloc: 0, files: 0, rest: 0 };
  for (const mapping of mappings) {
    resident[store.has(mapping) ? "store" : kindOf(mapping)] += mapping.residentKib;
  }
  return resident;
}

function parse(smaps: string): Mapping[] {
  const mappings: Mapping[] = [];
  for (const line of smaps.split("\n")) {
    const head = /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)$/.exec(line);
    if (head !== null) {
      const [, start, end, permissions, name] = head;
      mappings.push({
        start: parseInt(start!, 16),
        end: parseInt(end!, 16),
        permissions: permissions!,
        name: name!,
        residentKib: 0,
      });
    } else if (line.startsWith("Rss:")) {
      mappings.at(-1)!.residentKib = Number(/\d+/.exec(line)![0]);
    }
  }
  return mappings;
}

/** The longest row of neighbours: advice about large pages has divided it. */
function storeOf(mappings: readonly Mapping[]): Set<Mapping> {
  let row: Mapping[] = [];
  for (const mapping of mappings) {
    if (mapping.name !== "" || mapping.permissions !== "rw-p") continue;
    if (row.at(-1)?.end !== mapping.start) row = [];
    row.push(mapping);
    if (mapping.end - row[0]!.start >= STORE_BYTES_MIN) break;
  }
  const bytes = row.length === 0 ? 0 : row.at(-1)!.end - row[0]!.start;
  if (bytes < STORE_BYTES_MIN) throw new Error("Cannot find the store among the mappings");
  // The lines up to the next range describe the same mapping.
  let end = row.at(-1)!.end;
  for (const mapping of mappings) {
    if (mapping.start !== end || mapping.permissions !== "rw-p" || mapping.name !== "") continue;
    row.push(mapping);
    end = mapping.end;
  }
  return new Set(row);
}

function kindOf({ start, permissions, name }: Mapping): MappingKind {
  if (name.startsWith("/")) return "files";
  if (name === "[heap]") return "malloc";
  if (name !== "") return "rest";
  if (permissions.includes("x")) return "code";
  return start % HEAP_PAGE_BYTES === 0 && start < HEAP_ADDRESS_END ? "heap" : "rest";
}
