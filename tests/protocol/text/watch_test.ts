import { assert, assertEquals, assertMatch } from "@std/assert";
import { KEY_LENGTH_MAX, REPLY_BYTES } from "../../../store/limits.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { WATCHERS_MAX } from "../../../store/memory/watch_layout.ts";
import { opcodeOf, packetText } from "../../support/sessions/binary_text.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { parseStats } from "../../support/sessions/side.ts";

/** Lines without what every line starts with and without the connection's number; all large classes are 9. */
function told(text: string): string[] {
  return text.split("\n").slice(0, -1).map((line) =>
    line.replace(/^ts=\d+\.\d+ gid=\d+ /, "").replace(/ cfd=\d+/, "").replace(
      /clsid=\d\d/,
      "clsid=9",
    )
  );
}

/** Returns the lines that a watcher gets for some requests. */
function watched(words: string, requests: string, options: readonly string[] = []): string[] {
  const side = new ConversationSide(options);
  const watcher = side.connect();
  assertEquals(watcher.ask(`watch ${words}\r\n`), "OK\r\n");
  side.connect().ask(requests);
  return told(watcher.resume());
}

Deno.test("watch fetchers tells of every look-up", () => {
  assertEquals(
    watched(
      "fetchers",
      "get a\r\nset a% 0 0 2\r\nxy\r\nget a%\r\ntouch a% -1\r\nget a%\r\nset f 0 0 1\r\nf\r\n" +
        "flush_all\r\nget f\r\n",
    ),
    [
      "type=item_get key=a status=not_found clsid=0 size=0",
      "type=item_get key=a%25 status=not_found clsid=0 size=0",
      "type=item_get key=a%25 status=found clsid=1 size=2",
      "type=item_get key=a%25 status=found clsid=1 size=2",
      "type=item_get key=a%25 status=expired clsid=0 size=0",
      "type=item_get key=f status=not_found clsid=0 size=0",
      "type=item_get key=f status=flushed clsid=0 size=0",
    ],
  );
});

Deno.test("watch mutations tells what became of values", () => {
  const large = "x".repeat(20_000);
  assertEquals(
    watched(
      "mutations",
      `set a 0 100 1\r\na\r\nadd a 0 0 1\r\nb\r\nappend a 0 0 2\r\ncd\r\ncas a 0 0 1 5\r\ne\r\n` +
        `cas b 0 0 1 5\r\ne\r\nreplace b 0 0 1\r\nf\r\nset big 0 0 20000\r\n${large}\r\n` +
        `set big 0 0 2000000\r\n${"x".repeat(2_000_000)}\r\nprepend b 0 0 1\r\nf\r\n`,
    ),
    [
      "type=item_store key=a status=stored cmd=set ttl=100 clsid=1 size=1",
      "type=item_store key=a status=not_stored cmd=add ttl=0 clsid=0 size=1",
      "type=item_store key=a status=stored cmd=append ttl=100 clsid=1 size=3",
      "type=item_store key=a status=exists cmd=cas ttl=0 clsid=0 size=1",
      "type=item_store key=b status=not_found cmd=cas ttl=0 clsid=0 size=1",
      "type=item_store key=b status=not_stored cmd=replace ttl=0 clsid=0 size=1",
      "type=item_store key=big status=stored cmd=set ttl=0 clsid=9 size=20000",
      "type=item_store key=big status=too_large cmd=set ttl=0 clsid=0 size=2000000",
      "type=item_store key=b status=not_stored cmd=prepend ttl=0 clsid=0 size=1",
    ],
  );
});

Deno.test("watch deletions names the command, and tells nothing of the binary protocol", () => {
  const side = new ConversationSide();
  const watcher = side.connect();
  watcher.ask("watch deletions\r\n");
  side.connect().ask("set a 0 0 1\r\na\r\nmd a\r\nset a 0 0 1\r\na\r\nmd a q\r\n");
  const set = "set a 0 0 1\r\na\r\n";
  side.connect().ask(set);
  side.connect().ask(packetText({ opcode: opcodeOf("Delete"), key: "a" }));
  side.connect().ask(set + "delete a\r\n");
  assertEquals(told(watcher.resume()), [
    "type=deleted key=a cmd=md clsid=1 size=1",
    "type=deleted key=a cmd=md clsid=1 size=1",
    "type=deleted key=a cmd=delete clsid=1 size=1",
  ]);
});

Deno.test("watch deletions tells of hits", () => {
  assertEquals(
    watched("deletions", "delete a\r\nset a 0 0 3\r\nabc\r\ndelete a\r\ndelete a\r\n"),
    ["type=deleted key=a cmd=delete clsid=1 size=3"],
  );
});

Deno.test("watch evictions tells of what has to go, and sysevents of pages that are moved", () => {
  const side = new ConversationSide(["-m", "2", "-I", "100k"]);
  const watcher = side.connect();
  watcher.ask("watch evictions sysevents\r\n");
  const peer = side.connect();
  const value = "x".repeat(1000);
  const lines: string[] = [];
  for (let n = 0; n < 4000; n++) {
    const length = n < 2500 ? 1000 : 500;
    peer.ask(`set key-${n} 0 ${n % 2 ? 0 : 100} ${length}\r\n${value.slice(0, length)}\r\n`);
    if (n % 100 === 0) lines.push(...told(watcher.resume()));
  }
  lines.push(...told(watcher.resume()));
  const evictions = lines.filter((line) => line.startsWith("type=eviction "));
  const moves = lines.filter((line) => line.startsWith("type=slab_move "));
  const stats = parseStats(peer.ask("stats\r\n"));
  assertEquals(evictions.length, stats.get("evictions"));
  assertEquals(moves.length, stats.get("slabs_moved"));
  assert(evictions.length > 100 && moves.length > 0);
  for (const line of evictions) {
    assertMatch(
      line,
      /^type=eviction key=key-\d+ fetch=no ttl=(-1|100) la=0 clsid=\d+ size=(1000|500)$/,
    );
  }
  assertMatch(moves[0]!, /^type=slab_move src=\d+ dst=\d+ state=done$/);
});

Deno.test("watch words may be shortened, and watch fetchers when there are none", () => {
  assertEquals(watched("", "get a\r\n").length, 1);
  assertEquals(watched("f", "get a\r\n").length, 1);
  assertEquals(watched("mut e", "set a 0 0 1\r\na\r\n").length, 1);
  assertEquals(watched("rawcmds proxyreqs proxyevents proxyuser", "get a\r\n").length, 0);
});

Deno.test("watch is refused as memcached refuses it", () => {
  const side = new ConversationSide();
  assertEquals(side.connect().ask("watch bogus\r\n"), "ERROR\r\n");
  assertEquals(
    side.connect().ask("mn\r\nwatch\r\n"),
    "MN\r\nERROR cannot pipeline other commands before watch\r\n",
  );
  assertEquals(
    new ConversationSide(["-W"]).connect().ask("watch\r\n"),
    "CLIENT_ERROR watch commands not allowed\r\n",
  );
});

Deno.test("there are at most so many watchers, and the row of one that leaves is given again", () => {
  const side = new ConversationSide();
  const watchers = Array.from({ length: WATCHERS_MAX }, () => {
    const peer = side.connect();
    assertEquals(peer.ask("watch\r\n"), "OK\r\n");
    return peer;
  });
  const peer = side.connect();
  assertEquals(peer.ask("watch\r\n"), "WATCHER_TOO_MANY log watcher limit reached\r\n");
  assertEquals(parseStats(peer.ask("stats\r\n")).get("log_watchers"), WATCHERS_MAX);
  watchers[3]!.disconnect();
  assertEquals(peer.ask("watch\r\n"), "OK\r\n");
});

Deno.test("nothing is gathered when the last watcher has left", () => {
  const side = new ConversationSide();
  const { control } = side.thread.memory;
  const watcher = side.connect();
  watcher.ask("watch mutations\r\n");
  assert(control[CONTROL.WATCHED] !== 0);
  watcher.disconnect();
  assertEquals(control[CONTROL.WATCHED], 0);
  const peer = side.connect();
  peer.ask("set a 0 0 1\r\na\r\n");
  assertEquals(parseStats(peer.ask("stats\r\n")).get("log_worker_written"), 0);
});

Deno.test("a watcher that does not read loses lines and is told how many", () => {
  const side = new ConversationSide(["-o", "watcher_logbuf_size=4"]);
  const watcher = side.connect();
  watcher.ask("watch\r\n");
  const peer = side.connect();
  const asked = 200;
  peer.ask("get a\r\n".repeat(asked));
  const kept = told(watcher.resume()).length;
  assert(kept > 10 && kept < asked);
  peer.ask("get b\r\n");
  const [first, second, ...rest] = told(watcher.resume());
  assertEquals(first, `skipped=${asked - kept}`);
  assertMatch(second!, /key=b/);
  assertEquals(rest, []);
  const stats = parseStats(peer.ask("stats\r\n"));
  assertEquals(stats.get("log_worker_written"), asked + 1);
  assertEquals(stats.get("log_watcher_sent"), kept + 1);
  assertEquals(stats.get("log_watcher_skipped"), asked - kept);
});

Deno.test("a watcher is served on when its lines do not fit into one buffer of replies", () => {
  const side = new ConversationSide(["-o", "watcher_logbuf_size=1024"]);
  const watcher = side.connect();
  watcher.ask("watch\r\n");
  const asked = Math.ceil(2 * REPLY_BYTES / KEY_LENGTH_MAX);
  const peer = side.connect();
  peer.ask(`get ${"k".repeat(KEY_LENGTH_MAX)}\r\n`.repeat(asked));
  const lines = watcher.resume();
  assert(lines.length > 2 * REPLY_BYTES);
  assertEquals(told(lines).length, asked);
  peer.ask("get a\r\n");
  assertEquals(told(watcher.resume()).length, 1);
});

Deno.test("a watcher's thread is woken once for the lines it has not taken", () => {
  const side = new ConversationSide();
  const woken: number[] = [];
  side.thread.cache.onReady = (thread) => woken.push(thread);
  const watcher = side.connect();
  watcher.ask("watch\r\n");
  const peer = side.connect();
  peer.ask("get a\r\nget b\r\n");
  peer.ask("get c\r\n");
  assertEquals(woken, [0]);
  const ready: number[] = [];
  side.thread.takeReady(0, (owner) => ready.push(owner));
  side.thread.takeReady(0, (owner) => ready.push(owner));
  assertEquals(ready, [watcher.owner]);
  assertEquals(told(watcher.resume()).length, 3);
  peer.ask("get d\r\n");
  assertEquals(woken, [0, 0]);
});

Deno.test("a watcher's commands are not read any more", () => {
  const side = new ConversationSide();
  const watcher = side.connect();
  assertEquals(watcher.ask("watch\r\nget a\r\n"), "OK\r\n");
  assertEquals(watcher.ask("get a\r\n"), "");
  assertEquals(watcher.pendingLength, 0);
});

Deno.test("watch tokens tells of update tokens, and of stores that they refuse", () => {
  const side = new ConversationSide("--tokens volatile --allow-token-drop".split(" "));
  const watcher = side.connect();
  assertEquals(watcher.ask("watch tokens\r\n"), "OK\r\n");
  const other = side.connect();
  assertEquals(other.ask("watch mutations\r\n"), "OK\r\n");
  const client = side.connect();
  const id = /\d+/.exec(client.ask("token get a%b host:1\r\n"))![0];
  client.ask("token get a%b host:1\r\nset a%b 0 0 1\r\n1\r\nget a%b\r\nincr a%b 1\r\n");
  client.ask(`token release a%b 5\r\ntoken release a%b ${id}\r\nset a%b 0 0 1\r\n1\r\n`);
  const [first, second] = client.ask("token get k\r\ntoken get k\r\n").match(/\d+/g)!;
  client.ask(`token drop k ${second} unsafe\r\ntoken drop_all unsafe\r\nquarantine on\r\n`);
  client.ask("set a 0 0 1\r\n1\r\nquarantine off\r\n");
  const cfd = new Set<string>();
  const lines = watcher.resume().split("\n").slice(0, -1).map((line) => {
    const [, text, number] = /^ts=\d+\.\d+ gid=\d+ (.*) cfd=(\d+)$/.exec(line)!;
    cfd.add(number!);
    return text;
  });
  assertEquals(lines, [
    `type=token op=get key=a%25b id=${id} owner=host:1`,
    `type=token op=refused key=a%25b id=${id} owner=host:1`,
    `type=token op=refused key=a%25b id=${id} owner=host:1`,
    "type=token op=release_unknown key=a%25b id=5 owner=-",
    `type=token op=release key=a%25b id=${id} owner=host:1`,
    `type=token op=get key=k id=${first} owner=-`,
    `type=token op=get key=k id=${second} owner=-`,
    `type=token op=drop key=k id=${second} owner=-`,
    `type=token op=drop key=k id=${first} owner=-`,
    "type=token op=refused key=a id=0 owner=-",
  ]);
  assertEquals(cfd.size, 1, "the connection that asked");
  assert(!other.resume().includes("type=token"), "nobody else is told");
});

Deno.test("watch is refused behind other requests of its batch, also in a later slice", () => {
  const refusal = "ERROR cannot pipeline other commands before watch\r\n";
  for (const slice of ["1", "4096"]) {
    const peer = new ConversationSide(["-R", slice]).connect();
    assertEquals(peer.ask("get a\r\nget b\r\nwatch\r\n"), `END\r\nEND\r\n${refusal}`);
    assertEquals(peer.ask("watch\r\n"), "OK\r\n");
  }
});
