// The door for the process: makes a store, runs its maintenance and checks it.

export { checkStore } from "./check/check.ts";
export { firstIdAt } from "./memory/ids.ts";
export { LEASE_ENTRIES_LEAST, LEASE_ENTRIES_MOST } from "./limits.ts";
export {
  createSharedMemory,
  databaseRow,
  journalRow,
  Memory,
  type SharedMemory,
  threadRowCount,
} from "./memory/memory.ts";
export { Prefault } from "./memory/prefault.ts";
export { TOKEN_ENTRIES_LEAST, TOKEN_ENTRIES_MOST } from "./memory/token_layout.ts";
export { TOKEN_RECORD, TokenRecordType } from "./memory/token_record.ts";
export { TokenQueue } from "./claims/token_queue.ts";
export { slotsWithin, slotTableBytes } from "./memory/slot_table.ts";
export { CLOCK_MS_MAX, headerFault } from "./snapshot/header_check.ts";
export { type PagePiece, pagePieces } from "./snapshot/page_pieces.ts";
export { StoreInUseError } from "./snapshot/prepare.ts";
export { TablesError } from "./snapshot/snapshot_pages.ts";
export { TablesCheck } from "./snapshot/tables_check.ts";
export {
  continuedOptions,
  isReadable,
  type SnapshotHeader,
  type SnapshotTables,
  tableBytes,
  tablesIn,
} from "./snapshot/snapshot_header.ts";
