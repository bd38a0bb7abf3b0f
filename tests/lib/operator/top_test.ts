import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  type Choices,
  choicesOf,
  keysOf,
  pressed,
  screenLines,
  tableText,
} from "../../../lib/operator/top/screen.ts";
import type { Sample } from "../../../lib/operator/top/views.ts";
import { startMemcachedTcp, testWithMemcached } from "../../support/servers/memcached.ts";
import { HAS_SCRIPT, Pty } from "../../support/sessions/pty.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { MAIN, ServerProcess } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { needs } from "../../support/needs/needs.ts";

function table(text: string): Map<string, string> {
  return new Map(text.split("|").map((line) => line.split(" ") as [string, string]));
}

function sample(name: string, now: string, before: string): Sample {
  const tables = (text: string): Map<string, Map<string, string>> => new Map([["", table(text)]]);
  return { name, reason: "", now: tables(now), before: tables(before), seconds: 2 };
}

const ONE = sample(
  "one:1",
  "cmd_get 1000|get_hits 90|get_misses 10|bytes 1048576|limit_maxbytes 67108864|curr_items 7",
  "cmd_get 0|get_hits 0|get_misses 0|bytes 0|limit_maxbytes 67108864|curr_items 0",
);
const TWO = sample("two:2", "cmd_get 50|curr_items 900", "cmd_get 100|curr_items 1");

Deno.test("rates are growth a second; a counter that fell has none, and what a server lacks is a dash", () => {
  const [head, one, two] = tableText([ONE, TWO], "servers").split("\n");
  assertMatch(head!, /^server +get\/s +set\/s +hit% +p99 us +mem +mem% +items /);
  assertMatch(one!, /^one:1 +500 +- +90\.0 +- +1\.0M +1\.6 +7 /);
  assertMatch(two!, /^two:2 +- +- +- +- +- +- +900 /);
});

Deno.test("unknown values are last, whatever column sorts", () => {
  const gone = { ...ONE, name: "a:0", reason: "refused", now: new Map(), before: null };
  const known = sample("z:9", "version 1.6|curr_items 5", "version 1.6");
  for (const sort of ["items", "version"]) {
    const choices = { ...choicesOf("servers"), sort };
    const lines = screenLines([gone, known], choices, { columns: 300, rows: 6 }, false);
    assertEquals(lines.slice(2, 4).map((line) => line.slice(0, 3)), ["z:9", "a:0"], sort);
    assertEquals(lines[4], "a:0: refused");
  }
});

/** A connection for each number. */
function connections(count: number): Sample {
  const conns = new Map<string, string>();
  for (let cfd = 0; cfd < count; cfd++) {
    conns.set(`${cfd}:addr`, `tcp:10.0.0.1:${cfd}`);
    conns.set(`${cfd}:state`, "conn_read");
    conns.set(`${cfd}:secs_since_last_cmd`, `${cfd % 100}`);
  }
  return { name: "one:1", reason: "", now: new Map([["conns", conns]]), before: null, seconds: 1 };
}

Deno.test("10,000 rows scroll, sort and are filtered within every size of terminal", () => {
  const samples = [connections(10_000)];
  const start = choicesOf("connections");
  for (const [columns, rows] of [[200, 50], [80, 24], [20, 5], [1, 1]] as const) {
    const lines = screenLines(samples, start, { columns, rows }, false);
    assertEquals(lines.length, rows);
    assert(lines.every((line) => line.length <= columns), `${columns} columns`);
  }
  const press = (choices: Choices, keys: string): Choices =>
    keysOf(keys).reduce((now, key) => pressed(now, key, samples, 24)!, choices);
  const rowsAfter = (keys: string): string[] =>
    screenLines(samples, press(start, keys), { columns: 80, rows: 24 }, false);
  assertMatch(rowsAfter("")[2]!, / 99s$/);
  assertMatch(rowsAfter("r")[2]!, / 0s$/);
  assertMatch(rowsAfter("\x1b[C")[2]!, /^ *9999 /);
  assertMatch(rowsAfter("\x1b[C\x1b[B\x1b[B\x1b[A")[2]!, /^ *9998 /);
  assertMatch(rowsAfter("\x1b[C\x1b[F\x1b[A")[22]!, /^ *1 /);
  const [title, , only, none] = rowsAfter("/10.0.0.1:1234x\x7f\r");
  assertEquals(title, "leased top: connections, 1 rows, filter: 10.0.0.1:1234");
  assertMatch(only!, /^ *1234 /);
  assertEquals(none, "");
  assertStringIncludes(rowsAfter("/x\x1b ")[0]!, "10000 rows, paused");
  assertEquals(pressed(start, "q", samples, 24), null);
  assertEquals(pressed(press(start, "/"), "\x03", samples, 24), null);
});

Deno.test("hot keys come with their share, latencies with their rate", () => {
  const tables = (count: number): Map<string, Map<string, string>> =>
    new Map([
      [
        "hotkeys",
        table("samples 9|1:key a%3A1|1:share 0.25|1:hits 7|2:key b|2:share 0.5|2:hits 1"),
      ],
      ["latency", table(`get:count ${count}|get:p99_us 40|set:count 0`)],
    ]);
  const now = { name: "one:1", reason: "", now: tables(30), before: tables(10), seconds: 2 };
  assertMatch(tableText([now], "hotkeys"), /^key .*\nb +50\.0 +1 .*\na%3A1 +25\.0 +7 .*\n$/);
  assertMatch(tableText([now], "latency"), /^kind .*\nget +10 +- +- +40 .* 30\n$/);
});

Deno.test("rows are what stats rows tells of origins and nodes; other servers have none", () => {
  const tables = (count: number): Map<string, Map<string, string>> =>
    new Map([["rows", table(`puts_committed ${count}|nodes_member 2`)]]);
  const origin = { name: "one:1", reason: "", now: tables(30), before: tables(10), seconds: 2 };
  const text = tableText([origin, TWO], "rows");
  assertMatch(text, /^server +statistic +per s +value *\n[^]*\none:1 +puts_committed +10 +30 *\n/);
  assertEquals(text.trimEnd().split("\n").length, 3);
  const memcached = { ...TWO, now: new Map([["rows", null]]) };
  assertMatch(tableText([origin, memcached], "rows"), /\ntwo:2: has no stats rows\n$/);
});

Deno.test("columns that do not fit are left out whole, and colour is the caller's choice", () => {
  const narrow = screenLines([ONE], choicesOf("servers"), { columns: 24, rows: 5 }, false);
  assertEquals(narrow[1]!.trimEnd(), "server*  get/s  set/s");
  const [, head] = screenLines([ONE], choicesOf("servers"), { columns: 24, rows: 5 }, true);
  assertEquals(head, `\x1b[7m${narrow[1]}\x1b[0m`);
});

const ARGS = ["run", "--no-prompt", "-A", MAIN, "top"];

async function topOnce(
  ...args: readonly string[]
): Promise<{ code: number; lines: string[]; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...ARGS, ...args],
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  return { code, lines: textOf(stdout).trimEnd().split("\n"), stderr: textOf(stderr) };
}

testWithMemcached("leased top --once shows memcached beside leased", async (memcached) => {
  await using other = await startMemcachedTcp(memcached);
  await using server = await ServerProcess.start();
  const names = [`127.0.0.1:${server.port}`, `127.0.0.1:${other.port}`];
  for (const view of ["servers", "commands", "classes", "threads", "connections", "latency"]) {
    const { code, lines, stderr } = await topOnce(...names, "--view", view, "--interval", "100");
    assertEquals(code, 0, stderr);
    assertMatch(lines[0]!, /^server /, view);
  }
  const { code, lines } = await topOnce(...names, "127.0.0.1:1", "--once", "--interval", "100");
  assertEquals(code, 69);
  assertStringIncludes(lines.find((line) => line.startsWith(names[1]!))!, memcached.version);
  assertStringIncludes(lines.find((line) => line.startsWith("127.0.0.1:1: "))!, "refused");
});

Deno.test("leased top reads servers at Unix sockets", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/leased.sock`;
  await using server = await ServerProcess.start({ args: ["-s", path], permissions: ["-A"] });
  const known = await topOnce(path, "--once", "--interval", "100");
  assertEquals(known.code, 0, known.stderr);
  assertMatch(known.lines[1]!, /leased\.sock /);
  const unknown = await topOnce(`${folder}/none`, "--once", "--interval", "100");
  assertEquals(unknown.code, 69);
  assertStringIncludes(unknown.lines.join("\n"), `${folder}/none: `);
  await server.stop();
  await Deno.remove(folder, { recursive: true });
});

Deno.test("leased top shows a server again that has closed its connection", async () => {
  let lines = 0;
  await using server = new ScriptedPeer(() => [
    lines++ === 0 ? "close" : "STAT version 7.7.7\r\nEND\r\n",
  ]);
  const name = `127.0.0.1:${server.port}`;
  const { code, lines: shown } = await topOnce(name, "--once", "--interval", "100");
  assertEquals(code, 0, shown.join("\n"));
  assertMatch(shown[1]!, / 7\.7\.7$/);
});

// deno-lint-ignore no-control-regex
const OUR_SEQUENCES = /\x1b\[(?:\?1049[hl]|\?25[hl]|H|K)/g;

Deno.test(
  "leased top obeys keys in a terminal, and gives it back",
  needs("script", HAS_SCRIPT),
  async () => {
    await using server = await ServerProcess.start();
    using client = await server.connect();
    await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    const args = [`127.0.0.1:${server.port}`, "--interval", "100"];
    await using pty = new Pty("cols 60 rows 12", [...ARGS, ...args], { NO_COLOR: "" });
    await pty.until(`127.0.0.1:${server.port} `);
    assertStringIncludes(pty.shown, "\x1b[7mserver*");
    await pty.press("\t");
    await pty.until("leased top: commands, ");
    await pty.until("text:set");
    await pty.press("/zzz\r");
    await pty.until("0 rows, filter: zzz");
    await pty.press(" ");
    await pty.until("paused");
    await pty.press("q");
    assertEquals(await pty.ended(), 0);
    assert(pty.shown.endsWith("\x1b[?25h\x1b[?1049l"), JSON.stringify(pty.shown.slice(-80)));
  },
);

Deno.test("leased top sends a terminal nothing that a hostile server wrote", {
  ...needs("script", HAS_SCRIPT),
}, async () => {
  const evil = "\x1b]0;evil\x07\x9b31m\x1b[2Jevil";
  await using server = new ScriptedPeer((line) => [
    line.startsWith("stats conns") || line.startsWith("stats hot")
      ? `STAT 1:addr ${evil}\r\nSTAT 1:key ${evil}\r\n`
      : `STAT version ${evil}\r\nSTAT ${evil}:x ${evil}\r\nSTAT items:${evil}:number 1\r\n`,
    "END\r\n",
  ]);
  const args = [`127.0.0.1:${server.port}`, "--interval", "100"];
  await using pty = new Pty("cols 300 rows 12", [...ARGS, ...args], { NO_COLOR: "1" });
  for (const view of ["servers", "commands", "classes", "threads", "connections", "hotkeys"]) {
    await pty.until(`leased top: ${view}, `);
    if (view !== "classes" && view !== "commands") await pty.until("evil");
    // The runtime itself clears the line before.
    const screen = pty.shown.slice(Math.max(0, pty.shown.indexOf("\x1b[?1049h")));
    // The bytes that have arrived may end in the middle of a line's end, or of a sequence.
    // deno-lint-ignore no-control-regex
    const rest = screen.replace(OUR_SEQUENCES, "").replace(/\r+\n|\r+$|\x1b[^a-zA-Z]*$/g, "");
    assert(!/[^\x20-\x7e]/.test(rest), JSON.stringify(rest));
    await pty.press("\t");
  }
  await pty.press("\x03");
  assertEquals(await pty.ended(), 0);
});
