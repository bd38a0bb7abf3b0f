import { type Fault, faults } from "./fault.ts";

// deno-fmt-ignore
/**
 * Faults in the update-token proxy's protocols and in `leased audit`. The orders of steps that keep cached values equal
 * to committed ones have faults of their own, in `tests/explorer/`.
 */
export const PROXY_FAULTS: readonly Fault[] = [
  ...faults("lib/proxy/peer_access.ts", "lib/proxy/auth", [
    ["a client of the proxy need not authenticate", "this.#level = login === null ? Access.ADMIN : Access.NONE;", "this.#level = Access.ADMIN;"],
  ]),
  ...faults("lib/proxy/connection.ts", "lib/proxy/auth", [
    ["every user of the proxy may give every command", "if (needed > this.#access.level) {", "if (needed > Access.ADMIN) {"],
  ]),
  ...faults("lib/proxy/binary/serve.ts", "lib/proxy/auth", [
    ["the binary protocol passes the password check", "if (this.#access.level === Access.NONE && !isOpen(command, bodyLength)) {", "if (false) {"],
    ["every user of the proxy may write by the binary protocol",
      "if (command.access > this.#access.level) return", "if (command.access > Access.ADMIN) return"],
  ]),
  ...faults("lib/proxy/binary/sasl.ts", "lib/proxy/auth", [
    ["a wrong password at the proxy leaves the access that the client had",
      "    this.#access.reset();\n    const isPlain = mechanism.toUpperCase() === PLAIN;\n    this.#isStarted", "    const isPlain = mechanism.toUpperCase() === PLAIN;\n    this.#isStarted"],
  ]),
  ...faults("lib/proxy/binary/commands.ts", "lib/proxy/binary", [
    ["binary writes ignore the cas id", "if (casId === 0n) return edit;", "if (casId >= 0n) return edit;"],
  ]),
  ...faults("lib/proxy/binary/serve.ts", "lib/proxy/binary", [
    ["quiet binary requests are answered", "if (quiet && (parts.status ?? Status.OK) === quietStatus) return;", ""],
    ["binary keys may have blanks", "const KEY = /^[^\\0-\\x20\\x7f]{1,250}$/;", "const KEY = /^[^]{1,250}$/;"],
  ]),
  ...faults("lib/rows/databases/edits.ts", "lib/proxy/binary", [
    ["decr goes below 0", "return this.#delta > number ? 0n : number - this.#delta;", "return number - this.#delta;"],
    ["prepend appends", "before ? joined(data, row.data) : joined(row.data, data)", "joined(row.data, data)"],
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
  ...faults("lib/proxy/connection_timeouts.ts", "lib/proxy/connection_timeouts", [
    ["a client of the proxy that never reads is never dropped",
      "if (isOver(connection.sendingSinceMs, sendTimeoutSec)) {", "if (isOver(null, sendTimeoutSec)) {", "each wait"],
  ]),
  ...faults("lib/proxy/commands.ts", "lib/proxy/connection", [
    ["a list of tokens waits in memory as a whole", "${owner || \"-\"}`);\n      await session.sendLong();", "${owner || \"-\"}`);"],
  ]),
  ...faults("lib/proxy/flows.ts", "lib/proxy/connection", [
    ["an idle proxy does not learn of its successor",
      "yield* this.#readRow(NO_KEY);", "yield* step({ kind: \"readRow\", key: NO_KEY });", "checks its epoch"],
  ]),
  ...faults("lib/rows/databases/postgres/backend.ts", "lib/rows/databases/backend", [
    ["PostgreSQL: a deposed proxy overwrites rows", "WHERE epoch = $1 FOR SHARE), ", "WHERE epoch >= 0 * $1 FOR SHARE), ", "fenced"],
  ]),
];
