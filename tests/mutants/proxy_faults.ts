import type { Fault } from "./fault.ts";

/**
 * Faults in the update-token proxy's protocols and in `leased audit`. The orders of steps that keep cached values equal
 * to committed ones have faults of their own, in `tests/explorer/`.
 */
export const PROXY_FAULTS: readonly Fault[] = [
  {
    file: "lib/proxy/peer_access.ts",
    fault: "a client of the proxy need not authenticate",
    find: "this.#level = login === null ? Access.ADMIN : Access.NONE;",
    replace: "this.#level = Access.ADMIN;",
    tests: "lib/proxy/auth",
  },
  {
    file: "lib/proxy/connection.ts",
    fault: "every user of the proxy may give every command",
    find: "if (needed > this.#access.level) {",
    replace: "if (needed > Access.ADMIN) {",
    tests: "lib/proxy/auth",
  },
  {
    file: "lib/proxy/binary/serve.ts",
    fault: "the binary protocol passes the password check",
    find: "if (this.#access.level === Access.NONE && !isOpen(command, bodyLength)) {",
    replace: "if (false) {",
    tests: "lib/proxy/auth",
  },
  {
    file: "lib/proxy/binary/serve.ts",
    fault: "every user of the proxy may write by the binary protocol",
    find: "if (command.access > this.#access.level) return",
    replace: "if (command.access > Access.ADMIN) return",
    tests: "lib/proxy/auth",
  },
  {
    file: "lib/proxy/binary/sasl.ts",
    fault: "a wrong password at the proxy leaves the access that the client had",
    find:
      "    this.#access.reset();\n    const isPlain = mechanism.toUpperCase() === PLAIN;\n    this.#isStarted",
    replace: "    const isPlain = mechanism.toUpperCase() === PLAIN;\n    this.#isStarted",
    tests: "lib/proxy/auth",
  },
  {
    file: "lib/proxy/binary/commands.ts",
    fault: "binary writes ignore the cas id",
    find: "if (casId === 0n) return edit;",
    replace: "if (casId >= 0n) return edit;",
    tests: "lib/proxy/binary",
  },
  {
    file: "lib/proxy/binary/serve.ts",
    fault: "quiet binary requests are answered",
    find: "if (quiet && (parts.status ?? Status.OK) === quietStatus) return;",
    replace: "",
    tests: "lib/proxy/binary",
  },
  {
    file: "lib/proxy/binary/serve.ts",
    fault: "binary keys may have blanks",
    find: "const KEY = /^[^\\0-\\x20\\x7f]{1,250}$/;",
    replace: "const KEY = /^[^]{1,250}$/;",
    tests: "lib/proxy/binary",
  },
  {
    file: "lib/proxy/edits.ts",
    fault: "decr goes below 0",
    find: "return this.#delta > number ? 0n : number - this.#delta;",
    replace: "return number - this.#delta;",
    tests: "lib/proxy/binary",
  },
  {
    file: "lib/proxy/edits.ts",
    fault: "prepend appends",
    find: "before ? joined(data, row.data) : joined(row.data, data)",
    replace: "joined(row.data, data)",
    tests: "lib/proxy/binary",
  },
  {
    file: "lib/proxy/audit/audit.ts",
    fault: "a value that changes during the audit is a difference",
    find: "if (now!.id === cached.id && now!.sha256 === cached.sha256) {",
    replace: "if (now !== null) {",
    tests: "lib/proxy/audit",
  },
  {
    file: "lib/proxy/audit/audit.ts",
    fault: "the audit does not compare values",
    find: "cached.bytes === value.bytes &&\n    cached.sha256 === value.sha256;",
    replace: "cached.bytes === value.bytes;",
    tests: "lib/proxy/audit",
  },
  {
    file: "lib/proxy/audit/audit.ts",
    fault: "the audit leaves out the last keys",
    find: "if (batch.length > 0) await audit.compare(batch);",
    replace: "",
    tests: "lib/proxy/audit",
  },
  {
    file: "lib/proxy/audit/run.ts",
    fault: "an audit that could not reach a cache ends with 0",
    find: "failed++;",
    replace: "",
    tests: "lib/proxy/audit",
  },
  {
    file: "lib/proxy/connection_timeouts.ts",
    fault: "a client of the proxy that never reads is never dropped",
    find: "if (isOver(connection.sendingSinceMs, sendTimeoutSec)) {",
    replace: "if (isOver(null, sendTimeoutSec)) {",
    tests: "lib/proxy/connection_timeouts",
    filter: "each wait",
  },
  {
    file: "lib/proxy/commands.ts",
    fault: "a list of tokens waits in memory as a whole",
    find: '${owner || "-"}`);\n      await session.sendLong();',
    replace: '${owner || "-"}`);',
    tests: "lib/proxy/connection",
  },
  {
    file: "lib/proxy/flows.ts",
    fault: "an idle proxy does not learn of its successor",
    find: "yield* this.#readRow(NO_KEY);",
    replace: 'yield* step({ kind: "readRow", key: NO_KEY });',
    tests: "lib/proxy/connection",
    filter: "checks its epoch",
  },
  {
    file: "lib/proxy/postgres/backend.ts",
    fault: "PostgreSQL: a deposed proxy overwrites rows",
    find: "WHERE epoch = $6 FOR SHARE",
    replace: "WHERE epoch >= 0 * $6 FOR SHARE",
    tests: "lib/proxy/backend",
    filter: "fenced",
  },
];
