// Rows on the command line: options of an origin and of a node, and the permissions that they need.
import { assertEquals } from "@std/assert";
import { databaseName } from "../../../lib/databases/base/backend.ts";
import type { NodeOptions } from "../../../lib/rows/nodes/options.ts";
import type { RowsOptions } from "../../../lib/rows/options.ts";
import { needsDriver, rowNeeds } from "../../../lib/rows/permissions.ts";
import {
  savedRowsOptions,
  toDatabase,
  toNodeOptions,
  toRowsOptions,
} from "../../../lib/rows/row_arguments.ts";
import { readCommand } from "../../../lib/cli/command.ts";
import type { ServerOptions } from "../../../lib/cli/options.ts";
import { PROCESS_INFO, serverOptions } from "../../support/command_line.ts";

const DB = ["--db", "sqlite:/d/rows.db"];
const POSTGRES = "postgres://me:secret@host/app";

function read<Options>(
  to: (options: ServerOptions, errors: string[]) => Options,
  argv: readonly string[],
): { options: Options; errors: string[] } {
  const errors: string[] = [];
  return { options: to(serverOptions(...argv), errors), errors };
}

function origin(...argv: string[]): RowsOptions {
  const { options, errors } = read(toRowsOptions, ["--db", "sqlite:/d/rows.db", ...argv]);
  assertEquals(errors, []);
  return options;
}

/** Asserts that `options` have the fields of `expected`. They also have those of other parts of the server. */
function assertContains<Options extends object>(options: Options, expected: Options): void {
  assertEquals({ ...options, ...expected }, options);
}

function node(...argv: string[]): NodeOptions {
  return read(toNodeOptions, ["--origin", "h:1", ...argv]).options;
}

Deno.test("an origin without further options", () => {
  const expected: RowsOptions = {
    database: { kind: "sqlite", path: "/d/rows.db" },
    dbConnections: 10,
    dbTimeoutMs: 5000,
    names: {
      table: "kv",
      key: "key",
      value: "value",
      version: "version",
      flags: "flags",
      expiry: "",
    },
    rightFrom: undefined,
    takeover: "refuse",
    memberTimeMs: 2000,
    driftShare: 0.1,
    prefixes: [""],
    rowExpiry: "refuse",
    tokenEntries: 10_000,
    appliedTtlSec: 86_400,
    follow: false,
    views: "",
    lagMaxMs: 10_000,
    lagQuarantine: false,
    verify: 10_000,
    stale: "log",
  };
  assertContains(origin(), expected);
});

/** Options of an origin, and the fields that they set. */
const FIELDS: readonly (readonly [argv: readonly string[], fields: Partial<RowsOptions>])[] = [
  [["--db-connections", "3", "--db-timeout", "700"], {
    dbConnections: 3,
    dbTimeoutMs: 700,
  }],
  [["--standby"], { takeover: "standby" }],
  [["--take-over"], { takeover: "force" }],
  [["--member-time", "300", "--member-drift", "25"], { memberTimeMs: 300, driftShare: 0.25 }],
  [["--rows", "a:,b:"], { prefixes: ["a:", "b:"] }],
  [["--rows", "*"], { prefixes: [""] }],
  [["--row-expiry", "ignore"], { rowExpiry: "ignore" }],
  [["--token-entries", "7"], { tokenEntries: 7 }],
  [["--applied-ttl", "99"], { appliedTtlSec: 99 }],
  [["--follow", "--views", "/v", "--lag-max", "200", "--lag-quarantine"], {
    follow: true,
    views: "/v",
    prefixes: [],
    lagMaxMs: 200,
    lagQuarantine: true,
  }],
  [["--db", POSTGRES], {
    database: { kind: "postgres", url: POSTGRES },
    // Without the password: errors say it.
    rightFrom: "postgres://me@host/app",
  }],
];

for (const [argv, fields] of FIELDS) {
  Deno.test(`an origin with ${argv.join(" ")}`, () => {
    const options = origin(...argv);
    assertContains(options, { ...options, ...fields });
  });
}

Deno.test("each name of the table is its own option, and times need --row-expiry column", () => {
  const columns = ["table", "key-column", "value-column", "version-column", "flags-column"];
  const argv = columns.flatMap((name) => [`--${name}`, name]);
  const { table, key, value, version, flags } = origin(...argv).names;
  assertEquals([table, key, value, version, flags], columns);
  assertEquals(origin("--row-expiry", "column").names.expiry, "expires");
  assertEquals(origin("--row-expiry", "column", "--expiry-column", "x").names.expiry, "x");
});

Deno.test("options that contradict each other, or lack another, are named", () => {
  const errors = (...argv: string[]): readonly string[] => {
    const command = readCommand([...DB, ...argv], PROCESS_INFO);
    return command.kind === "refuse" ? command.errors : [];
  };
  assertEquals(errors("--standby", "--take-over"), [
    "--standby and --take-over: give one of them",
  ]);
  for (const [name, value] of [["lag-max", "200"], ["views", "/v"], ["lag-quarantine", ""]]) {
    const argv = value === "" ? [`--${name}`] : [`--${name}`, value!];
    assertEquals(errors(...argv), [`--${name}: needs --follow`]);
    assertEquals(errors(...argv, "--follow"), []);
  }
});

Deno.test("addresses of databases; a password is not shown", () => {
  const refused = (text: string): string | undefined => {
    const errors: string[] = [];
    toDatabase(text, errors);
    return errors[0];
  };
  const database = (text: string): unknown => toDatabase(text, []);
  const hosts = "postgres://me@a:1,b/x?target_session_attrs=read-write";
  for (const url of [POSTGRES, hosts, "postgresql://h/x", "postgres:///x?host=/run"]) {
    assertEquals(database(url), { kind: "postgres", url });
  }
  assertEquals(database("sqlite::memory:"), { kind: "sqlite", path: ":memory:" });
  assertEquals(database("sqlite:a b"), { kind: "sqlite", path: "a b" });
  const form = "must be sqlite:<file> or postgres://<user>@<host>/<database>";
  assertEquals(refused("sqlite:"), `--db "sqlite:": ${form}`);
  assertEquals(refused("rows.db"), `--db "rows.db": ${form}`);
  assertEquals(refused("mysql://me:secret@h/x"), `--db "mysql://me:…@h/x": ${form}`);
  assertEquals(refused("postgres://me:secret@a,/x"), `--db "postgres://me:…@a,/x": ${form}`);
  assertEquals(refused("postgres://h/x y"), `--db "postgres://h/x y": ${form}`);
  // Also one with the marks of a URL in it, or in the place where libpq takes it.
  assertEquals(refused("postgres://me:a@b:c@d,/x"), `--db "postgres://me:…@d,/x": ${form}`);
  for (const query of ["?password=secret", "?sslmode=require&Password=secret", "?password=a=b:c"]) {
    const shown = query.replace(/(password=).*/i, "$1…");
    assertEquals(refused(`postgres://d,/x${query}`), `--db "postgres://d,/x${shown}": ${form}`);
    for (const hosts of ["h:1", "g,h:1"]) {
      const url = `postgres://me:secret@${hosts}/x${query}`;
      assertEquals(databaseName({ kind: "postgres", url }), `postgres://me@${hosts}/x`);
    }
  }
});

Deno.test("a node's options: its origins in their order, and what it shares with them", () => {
  assertContains(node(), {
    origins: [{ hostname: "h", port: 1, name: "h:1" }],
    rightFrom: "origin h:1",
    nodeName: "",
    prefixes: [""],
    rowExpiry: "refuse",
    verify: 10_000,
    lagMaxMs: 10_000,
    dbTimeoutMs: 5000,
    originLogin: "",
    originCaCert: "",
  });
  const argv = [
    "--origin",
    "[::1]:2,g:3",
    "--rows",
    "a:",
    "--node-name",
    "me",
    "--db-timeout",
    "300",
  ];
  const files = ["--origin-login", "/l", "--origin-ca-cert", "/c", "--row-expiry", "column"];
  const options = node(...argv, ...files);
  assertEquals(options.origins.map(({ name }) => name), ["h:1", "[::1]:2", "g:3"]);
  assertEquals(options.rightFrom, "origin h:1, [::1]:2, g:3");
  const { prefixes, rowExpiry, dbTimeoutMs, nodeName, originLogin, originCaCert } = options;
  assertEquals([prefixes, rowExpiry, dbTimeoutMs, nodeName], [["a:"], "column", 300, "me"]);
  assertEquals([originLogin, originCaCert], ["/l", "/c"]);
  const bad = read(toNodeOptions, ["--origin", "h"]);
  assertEquals([bad.errors.length, bad.errors[0]!.slice(0, 12)], [1, '--origin "h"']);
});

Deno.test("a snapshot's rows depend on which keys are rows, their times, names, and the log", () => {
  const text = (...argv: string[]): string => savedRowsOptions(origin(...argv));
  const others = [
    ["--rows", "a:"],
    ["--row-expiry", "ignore"],
    ["--row-expiry", "column"],
    ["--table", "x"],
    ["--flags-column", "x"],
    ["--follow"],
  ].map((argv) => text(...argv));
  assertEquals(new Set([text(), ...others]).size, others.length + 1);
  assertEquals(text("--member-time", "300", "--take-over"), text());
});

/** `kind:scope`, with `?` behind an optional one. */
function needsOf(options: RowsOptions | NodeOptions): string[] {
  return rowNeeds(options).map(({ descriptor, optional }) => {
    const { name, path, host, variable } = { ...descriptor } as Record<string, string | undefined>;
    return `${name}:${path ?? host ?? variable ?? "all"}${optional === true ? "?" : ""}`;
  });
}

Deno.test("an origin needs its database and the files that options name", () => {
  const file = ["/d/rows.db", "/d/rows.db-origin"];
  const ofFile = ["read", "write"].flatMap((kind) => file.map((path) => `${kind}:${path}`));
  assertEquals(needsOf(origin()), ofFile);
  assertEquals(rowNeeds(origin())[0]!.purpose, "use the database /d/rows.db (--db)");
  assertEquals(needsOf(origin("--db", "sqlite::memory:")), []);
  const variables = ["PG*", "USERNAME", "USER", "LOGNAME"].map((name) => `env:${name}`);
  for (
    const [url, host] of [
      [POSTGRES, "host:5432"],
      ["postgres://h:7/x", "h:7"],
      ["postgres://[::1]/x", "[::1]:5432"],
      ["postgres:///x", "all"],
    ]
  ) {
    const options = origin("--db", url!);
    assertEquals(needsOf(options), [`net:${host}`, ...variables]);
    const name = databaseName(options.database);
    assertEquals(rowNeeds(options)[0]!.purpose, `use the database ${name} (--db)`);
  }
  assertEquals(needsOf(origin("--follow", "--views", "/v")).slice(4), ["read:/v"]);
  assertEquals([origin(), origin("--db", POSTGRES), node()].map(needsDriver), [false, true, false]);
});

Deno.test("a node needs its origins and its files, and no database", () => {
  const options = node("--origin", "[::1]:2", "--origin-login", "/l", "--origin-ca-cert", "/c");
  assertEquals(needsOf(options), ["net:h:1", "net:[::1]:2", "read:/l", "read:/c"]);
  assertEquals(rowNeeds(options).map(({ purpose }) => purpose), [
    "ask the origin h:1 (--origin)",
    "ask the origin [::1]:2 (--origin)",
    "read /l (--origin-login)",
    "read /c (--origin-ca-cert)",
  ]);
});
