import { type Fault, faults } from "./fault.ts";

// deno-fmt-ignore
/**
 * Faults in what serves rows, and in `leased audit`. The orders of steps that keep cached values equal
 * to committed ones have faults of their own, in `tests/explorer/`.
 */
export const PROXY_FAULTS: readonly Fault[] = [
  ...faults("lib/rows/row_edits.ts", "lib/rows/row_loop", [
    ["a condition of a write is not looked at", "return compare === null || compare === version ||", "return compare !== null ||"],
    ["prepend and append change places", "isAppend ? [row.data, this.#data] : [this.#data, row.data]", "isAppend ? [this.#data, row.data] : [row.data, this.#data]"],
    ["a row may be larger than an item", "this.#fits(change.data.length)) return change;", "true) return change;"],
  ]),
  ...faults("lib/rows/caches/cache_connection.ts", "lib/rows/caches/cache_client", [
    ["replies of a cache go to requests in their order, whatever their opaque", "const pending = this.#pending.get(Number(opaque));", "const [pending] = this.#pending.values();"],
    ["a late reply of a cache fails its neighbours", "if (!waiting.has(each)) continue;", ""],
  ]),
  ...faults("lib/rows/databases/sqlite.ts", "lib/rows/databases/backend", [
    ["SQLite: a write that fails leaves half of it", 'if (isSaved) this.#database.exec("ROLLBACK TO one; RELEASE one");', ""],
  ]),
  ...faults("lib/rows/audit/audit.ts", "lib/rows/audit/audit", [
    ["a value that changes during the audit is a difference",
      "if (now!.id === cached.id && now!.sha256 === cached.sha256) {", "if (now !== null) {"],
    ["the audit does not compare values", "cached.bytes === value.bytes &&\n    cached.sha256 === value.sha256;", "cached.bytes === value.bytes;"],
    ["the audit leaves out the last keys", "if (batch.length > 0) await audit.compare(batch);", ""],
  ]),
  ...faults("lib/rows/audit/run.ts", "lib/rows/audit/audit", [
    ["an audit that could not reach a cache ends with 0", "failed++;", ""],
  ]),
  ...faults("lib/rows/databases/postgres/backend.ts", "lib/rows/databases/backend", [
    ["PostgreSQL: a deposed proxy overwrites rows", "WHERE epoch = $1 FOR SHARE), ", "WHERE epoch >= 0 * $1 FOR SHARE), ", "fenced"],
  ]),
];
