import { assert, assertEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { StoreMode } from "../../../store/operation.ts";
import { ConnectionKind, ConnectionTable } from "../../../store/connections.ts";
import { Cache } from "../../../store/cache.ts";
import { Memory } from "../../../store/memory/memory.ts";
import { WatchEvent, WatchLog } from "../../../store/watch/watch_log.ts";
import { movePage, TestStore } from "../../support/store.ts";

const ALL = Object.values(WatchEvent).reduce((bits, bit) => bits | bit, 0);

function taken(log: WatchLog, watcher: number, pieceLength = 1000): string {
  const to = new ByteRegion(new ArrayBuffer(pieceLength));
  let text = "";
  for (;;) {
    const length = log.take(watcher, to, 0, pieceLength);
    if (length === 0) return text;
    text += String.fromCharCode(...to.bytes.subarray(0, length));
  }
}

Deno.test("lines go round a ring many times, in pieces of any length", () => {
  const store = new TestStore({ watchRingBytes: 1000 });
  const { watchLog } = store.cache.links;
  const watcher = watchLog.open(WatchEvent.FETCHERS, 0, 1);
  for (let n = 0; n < 500; n++) {
    store.get(`key-${n}`);
    const text = taken(watchLog, watcher, 1 + n % 90);
    assert(
      text.endsWith(`gid=${n} type=item_get key=key-${n} status=not_found clsid=0 cfd=0 size=0\n`),
    );
    assert(text.startsWith("ts=17"));
  }
});

Deno.test("a watcher that reads slowly gets whole lines, and is told how many it has lost", () => {
  const store = new TestStore({ watchRingBytes: 1000 });
  const { watchLog } = store.cache.links;
  const watcher = watchLog.open(WatchEvent.FETCHERS, 0, 1);
  const to = new ByteRegion(new ArrayBuffer(7));
  const count = 2000;
  let text = "";
  for (let n = 0; n < count; n++) {
    store.get("key");
    const length = watchLog.take(watcher, to, 0, n % 8);
    text += String.fromCharCode(...to.bytes.subarray(0, length));
  }
  text += taken(watchLog, watcher);
  store.get("key");
  text += taken(watchLog, watcher);
  let next = 0;
  for (const line of text.trimEnd().split("\n")) {
    const skipped = /^skipped=(\d+)$/.exec(line)?.[1];
    if (skipped !== undefined) next += Number(skipped);
    else {
      const [, id] =
        /^ts=[\d.]+ gid=(\d+) type=item_get key=key status=not_found clsid=0 cfd=0 size=0$/
          .exec(line) ?? [];
      assertEquals(Number(id), next++, line);
    }
  }
  assertEquals(next, count + 1);
});

Deno.test("each watcher gets what it asked for, and none what it did not", () => {
  const store = new TestStore();
  const { watchLog } = store.cache.links;
  const all = watchLog.open(ALL, 0, 1);
  const mutations = watchLog.open(WatchEvent.MUTATIONS, 0, 2);
  store.store(StoreMode.SET, "a", "1");
  store.remove("a", { deletedBy: "delete" });
  assertEquals(taken(watchLog, all).match(/type=\w+/g), [
    "type=item_get",
    "type=item_store",
    "type=item_get",
    "type=deleted",
  ]);
  assertEquals(taken(watchLog, mutations).match(/type=\w+/g), ["type=item_store"]);
  watchLog.close(all);
  store.get("a");
  assertEquals(taken(watchLog, mutations), "");
});

Deno.test("a thread tells the watchers of another, and says whom to wake", () => {
  const store = new TestStore({ threads: 3 });
  const { watchLog } = store.cache.links;
  const watcher = watchLog.open(ALL, 2, 7);
  const other = new Cache(new Memory(store.memory.shared));
  const woken: number[] = [];
  other.onReady = (thread) => woken.push(thread);
  other.enter();
  movePage(other, 1, 2); // refused: nothing to tell
  other.get(store.operation);
  other.get(store.operation);
  other.leave();
  assertEquals(woken, [2]);
  assertEquals(watchLog.takeReady(0), 0);
  assertEquals(watchLog.takeReady(2), 7);
  assertEquals(watchLog.takeReady(2), 0);
  assertEquals(taken(watchLog, watcher).split("\n").length, 3);
});

Deno.test("connections are told with their peer", () => {
  const store = new TestStore();
  const connections = new ConnectionTable(store.memory.shared.connections);
  const { watchLog } = store.cache.links;
  const watcher = watchLog.open(ALL, 0, 1);
  const { TCP, UNIX } = ConnectionKind;
  const tcp = connections.open(TCP, 0, "tcp:10.0.0.1:5", "tcp:127.0.0.1:11211", 2);
  const tcp6 = connections.open(TCP, 0, "tcp6:[::1]:6", "tcp:127.0.0.1:11211", 2);
  const unix = connections.open(UNIX, 0, "unix:/tmp/s", "unix:/tmp/s", 2);
  watchLog.connectionOpened(tcp);
  watchLog.connectionClosed(tcp6, "error");
  watchLog.connectionClosed(unix, "idle_timeout");
  const lines = taken(watchLog, watcher).split("\n").map((line) =>
    line.replace(/^.* type/, "type")
  );
  assertEquals(lines, [
    "type=conn_new rip=10.0.0.1 rport=5 transport=tcp cfd=2",
    "type=conn_close rip=::1 rport=6 transport=tcp reason=error cfd=3",
    "type=conn_close rip=unix rport=0 transport=local reason=idle_timeout cfd=4",
    "",
  ]);
});

Deno.test("the log is on while a watcher is open", () => {
  const store = new TestStore();
  const { watchLog, watch } = store.cache.links;
  assertEquals(watch.isOn, false);
  const watcher = watchLog.open(ALL, 0, 1);
  assertEquals(watch.isOn, true);
  watchLog.close(watcher);
  assertEquals(watch.isOn, false);
  assertEquals(watchLog.count, 0);
});

Deno.test("a watcher in the place of one that read nothing begins with its own lines", () => {
  const store = new TestStore({ watchRingBytes: 1000 });
  const { watchLog } = store.cache.links;
  const first = watchLog.open(WatchEvent.FETCHERS, 0, 1);
  for (let n = 0; n < 20; n++) store.get(`old-${n}`);
  watchLog.close(first);
  assertEquals(watchLog.open(WatchEvent.MUTATIONS, 0, 2), first);
  store.cache.enter();
  store.cache.leave();
  assertEquals(watchLog.takeReady(0), 0);
  store.store(StoreMode.SET, "new", "1");
  assertEquals(watchLog.takeReady(0), 2);
  const text = taken(watchLog, first);
  assert(/^ts=\S+ gid=20 type=item_store key=new /.test(text), text);
});
