import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Found } from "../../../../lib/databases/base/backend.ts";
import { type CachedRow, RowKind } from "../../../../store/row_cache.ts";
import type { Hit } from "../../../../lib/rows/meter/comparison.ts";
import { Meter, type MeterCounts, type MeteredLog } from "../../../../lib/rows/meter/meter.ts";
import { ProvenanceTable } from "../../../../lib/rows/meter/provenance.ts";
import type { KeySet } from "../../../../lib/databases/views/key_set.ts";
import type { TransportEvent } from "../../../../lib/net/transport.ts";

const encoder = new TextEncoder();

/** A row of a made-up database: its version, and that as text. */
function row(version: number): Found {
  return { row: { flags: 0, data: encoder.encode(`${version}`), version }, version, epoch: 1 };
}

function hit(version: number): Hit {
  return { version, flags: 0, data: encoder.encode(`${version}`), expiresInSec: 0 };
}

function only(...keys: string[]): KeySet {
  return { keys, prefixes: [] };
}

/** A meter over a made-up cache and database. */
class Setting {
  nowMs = 0;
  hits = 0;
  epoch = 1;
  keys: string[] = [];
  readonly cached = new Map<string, Hit>();
  readonly stored = new Map<string, number>();
  isOpen = true;
  provenances = new ProvenanceTable();
  /** How long the database takes. */
  readMs = 0;
  isDown = false;
  /** What happens when the connection is opened again. */
  renewed = (): void => {};
  renewals = 0;
  log: MeteredLog | null = null;
  readonly events: TransportEvent[] = [];
  readonly expelled: string[] = [];
  onExpel = (_key: string): void => {};
  quarantines = 0;
  readonly meter: Meter;

  constructor(settings: { every?: number; quarantine?: boolean } = {}) {
    const { every = 1, quarantine = false } = settings;
    // deno-lint-ignore no-this-alias -- for the getter
    const setting = this;
    this.meter = new Meter({
      openTruth: () => Promise.resolve(this.isOpen),
      truth: {
        read: (key) => {
          this.nowMs += this.readMs;
          if (this.isDown) return Promise.reject(new Error("no database"));
          return Promise.resolve([row(this.stored.get(key)!)]);
        },
        isCurrent: ({ epoch }) => epoch === this.epoch,
        get log() {
          return setting.log;
        },
      },
      renewTruth: () => {
        this.renewals++;
        this.renewed();
        return Promise.resolve();
      },
      lagMaxMs: 10_000,
      every,
      look: (key) => this.cached.get(key) ?? null,
      isCached: (key) => this.cached.has(key),
      hits: () => this.hits,
      drawKey: () => this.keys[0] ?? null,
      provenanceOf: (key) => this.provenances.of(key),
      expel: (key) => {
        this.expelled.push(key);
        this.onExpel(key);
        return Promise.resolve();
      },
      quarantine: quarantine ? () => this.quarantines++ : null,
      report: (event) => this.events.push(event),
      nowMs: () => this.nowMs,
      nowUnixSec: () => this.nowMs / 1000,
    });
  }

  put(key: string, cached: number, stored = cached): void {
    this.cached.set(key, hit(cached));
    this.stored.set(key, stored);
  }

  /** Hits happen, and a second passes. */
  async tick(hits = 0): Promise<void> {
    this.hits += hits;
    this.nowMs += 1000;
    await this.meter.tick();
  }

  /** The counters that are not 0. */
  get counts(): Partial<MeterCounts> {
    return Object.fromEntries(
      Object.entries(this.meter.counts).filter(([, count]) => count > 0),
    );
  }
}

Deno.test("one of so many hits is compared, at most 20 a second", async () => {
  const setting = new Setting({ every: 10 });
  setting.put("k", 5);
  setting.keys = ["k"];
  await setting.tick(9);
  assertEquals(setting.counts, {});
  await setting.tick(1);
  assertEquals(setting.counts, { same: 1 });
  await setting.tick(25);
  assertEquals(setting.counts, { same: 3 });
  await setting.tick(1000);
  assertEquals(setting.counts, { same: 23 });
});

Deno.test("with few hits there is a sample in ten seconds, and none without a key", async () => {
  const setting = new Setting({ every: 10_000 });
  for (let second = 0; second < 30; second++) await setting.tick();
  assertEquals(setting.counts, {});
  setting.put("k", 5);
  setting.keys = ["k"];
  for (let second = 0; second < 30; second++) await setting.tick(1);
  assertEquals(setting.counts, { same: 3 });
});

Deno.test("a key that has changed is compared as soon as the cache answers for it", async () => {
  const setting = new Setting();
  setting.stored.set("k", 5);
  setting.meter.noteDeletion(only("k"));
  await setting.tick();
  assertEquals(setting.counts, {});
  setting.put("k", 5);
  await setting.tick(1);
  assertEquals(setting.counts, { same: 1 });
});

Deno.test("a stale value is told, deleted, and in the counts of the hour", async () => {
  const setting = new Setting();
  setting.put("a b\r\n", 4, 5);
  setting.meter.noteDeletion(only("a b\r\n"));
  await setting.tick(1);
  assertEquals(setting.counts, { stale: 1 });
  assertEquals(setting.expelled, ["a b\r\n"]);
  assertEquals(setting.meter.window.hour, { compared: 1, stale: 1 });
  assertEquals(setting.events.map(({ event, message }) => `${event}: ${message}`), [
    "stale_value: a cached value is older than the database has it: a%20b%0D%0A, " +
    "cached version 4, in the database version 5; cached at an unknown time; it is deleted",
  ]);
});

Deno.test("a wrong value is told with how it was cached", async () => {
  const setting = new Setting();
  setting.put("k", 4, 5);
  setting.provenances.note("k", RowKind.READ, Date.UTC(2026, 0, 2));
  setting.provenances.note("k", RowKind.COUNT, Date.UTC(2026, 0, 2, 3, 4, 5, 678));
  setting.meter.noteDeletion(only("k"));
  await setting.tick(1);
  assertStringIncludes(
    setting.events[0]!.message,
    "; cached by incr or decr at 2026-01-02T03:04:05.678Z; it is deleted",
  );
});

Deno.test("it is known how the last keys were cached", () => {
  const provenances = new ProvenanceTable();
  const keys = Array.from({ length: 200_000 }, (_, index) => `key:${index}`);
  for (const [index, key] of keys.entries()) provenances.note(key, RowKind.STORE, index + 1);
  const known = keys.flatMap((key, index) => {
    const provenance = provenances.of(key);
    return provenance === null ? [] : [{ isRight: provenance.unixMs === index + 1, index }];
  });
  assertEquals(known.every(({ isRight }) => isRight), true);
  assertEquals(known.length > 30_000 && known.at(-1)!.index === keys.length - 1, true);
  assertEquals(provenances.of("other"), null);
});

Deno.test("without a connection nothing is compared, and nothing is left out", async () => {
  const setting = new Setting();
  setting.put("k", 5);
  setting.keys = ["k"];
  setting.isOpen = false;
  await setting.tick(3);
  assertEquals(setting.counts, {});
  setting.isOpen = true;
  await setting.tick();
  assertEquals(setting.counts, { same: 3 });
});

Deno.test("the time that samples take is counted", async () => {
  const setting = new Setting();
  setting.put("k", 5);
  setting.keys = ["k"];
  setting.readMs = 7;
  await setting.tick(1);
  assertEquals(setting.meter.busyMs, 14);
});

Deno.test("a value that is newer than the database is told as such", async () => {
  const setting = new Setting();
  setting.put("k", 6, 5);
  setting.meter.noteDeletion(only("k"));
  await setting.tick(1);
  assertEquals(setting.counts, { phantom: 1 });
  assertEquals(setting.events.map(({ event }) => event), ["phantom_value"]);
});

Deno.test("with a log, a value is wrong when it is still there after its change is applied", async () => {
  const setting = new Setting();
  let waits = 0;
  let applied = (): void => {};
  setting.log = {
    waitForNow: () => {
      waits++;
      applied();
      return Promise.resolve(true);
    },
  };
  setting.put("k", 4, 5);
  setting.keys = ["k"];
  await setting.tick(1);
  assertEquals([setting.counts, waits], [{ stale: 1 }, 3]);
  setting.put("k", 6, 5);
  await setting.tick(1);
  assertEquals([setting.counts, waits], [{ stale: 1, phantom: 1 }, 6]);
  assertEquals(setting.renewals, 2);
  // It is deleted meanwhile, or filled with what is right, or with a later version; at the first look or the last.
  for (const look of [1, 3]) {
    for (const next of [null, 5, 6]) {
      setting.put("k", 4, 5);
      waits = 0;
      applied = (): void => {
        if (waits < look) return;
        if (next === null) setting.cached.delete("k");
        else setting.put("k", next, Math.max(next, 5));
      };
      await setting.tick(1);
      assertEquals(waits, look);
    }
  }
  assertEquals(setting.counts, { stale: 1, phantom: 1, lagging: 6 });
  assertEquals(setting.meter.window.hour, { compared: 8, stale: 2 });
});

Deno.test("a log that is not applied in time gives no verdict", async () => {
  const setting = new Setting();
  setting.log = { waitForNow: (ms) => Promise.resolve(ms !== 10_000) };
  setting.put("k", 4, 5);
  setting.keys = ["k"];
  await setting.tick(1);
  assertEquals(setting.counts, { failed: 1 });
  assertEquals(setting.meter.window.hour, { compared: 0, stale: 0 });
});

Deno.test("a database that does not answer is counted, and another origin's is no truth", async () => {
  const setting = new Setting();
  setting.put("k", 4, 5);
  setting.keys = ["k"];
  setting.isDown = true;
  await setting.tick(1);
  assertEquals(setting.counts, { failed: 1 });
  setting.isDown = false;
  setting.epoch = 2;
  await setting.tick(1);
  assertEquals(setting.counts, { failed: 1 });
});

Deno.test("a hundredth of the database's time is for samples; what is more is shed", async () => {
  const setting = new Setting();
  setting.put("k", 5);
  setting.keys = ["k"];
  setting.readMs = 30;
  await setting.tick(20);
  // 60 ms each: a second in advance, and 10 ms for each second.
  assertEquals(setting.counts, { same: 17, shed: 3 });
  for (let second = 0; second < 100; second++) await setting.tick(1);
  const { same = 0, shed = 0 } = setting.counts;
  assertEquals(same + shed, 120);
  assertEquals([same > 30, same < 40], [true, true], `${same} samples`);
});

Deno.test("a database that is slower than its share still gets a sample in ten seconds", async () => {
  const setting = new Setting();
  setting.put("k", 5);
  setting.keys = ["k"];
  setting.readMs = 1000;
  const ticks = 1000;
  for (let tick = 0; tick < ticks; tick++) await setting.tick(1);
  const { same = 0, shed = 0 } = setting.counts;
  assertEquals(same + shed, ticks);
  assertEquals(same, Math.ceil(setting.nowMs / 10_000), `${same} samples`);
});

Deno.test("--stale quarantine acts at the second wrong value, once", async () => {
  const setting = new Setting({ quarantine: true });
  for (let count = 0; count < 4; count++) {
    setting.put(`k${count}`, 4, 5);
    setting.keys = [`k${count}`];
    await setting.tick(1);
    assertEquals(setting.quarantines, Math.min(count, 1), `after ${count + 1}`);
  }
  assertEquals(setting.events.filter(({ event }) => event === "stale_quarantine").length, 1);
});

Deno.test("before a verdict the connection is opened again; what it finds then counts", async () => {
  const setting = new Setting();
  setting.keys = ["k"];
  setting.put("k", 4, 5);
  // The old connection led to another server.
  setting.renewed = () => setting.put("k", 4);
  await setting.tick(1);
  assertEquals([setting.counts, setting.renewals], [{ unclear: 1 }, 1]);
  await setting.tick(1);
  assertEquals([setting.counts, setting.renewals], [{ unclear: 1, same: 1 }, 1]);
  setting.put("k", 4, 5);
  setting.renewed = () => {
    throw new Error("refused");
  };
  await setting.tick(1);
  assertEquals(setting.counts, { unclear: 1, same: 1, failed: 1 });
  assertEquals(setting.events.map(({ message }) => message), [
    "a cached value was not compared with the database: refused",
  ]);
});

Deno.test("a view's result that the log names again may have returned: no verdict", async () => {
  for (const version of [1, 4]) {
    for (const changed of [only("k"), { keys: [], prefixes: ["k"] }, only("other")]) {
      const setting = new Setting();
      setting.keys = ["k"];
      setting.log = {
        waitForNow: () => {
          setting.meter.noteChanges(changed);
          return Promise.resolve(true);
        },
      };
      setting.put("k", version, 5);
      setting.cached.set("k", { ...hit(version) as CachedRow, data: encoder.encode("x") });
      setting.stored.set("k", version);
      await setting.tick(1);
      const mayReturn = version === 1 && changed.keys[0] !== "other";
      assertEquals(setting.counts, mayReturn ? { lagging: 1 } : { stale: 1 });
    }
  }
});

Deno.test("a view's result within its max-age lags", async () => {
  const setting = new Setting();
  setting.keys = ["k"];
  setting.put("k", 1);
  setting.cached.set("k", { ...hit(1) as CachedRow, data: encoder.encode("x"), expiresInSec: 5 });
  await setting.tick(1);
  assertEquals(setting.counts, { lagging: 1 });
  assertEquals(setting.meter.window.hour, { compared: 1, stale: 0 });
});

Deno.test("why samples fail is told once an hour", async () => {
  const setting = new Setting({ every: 1 });
  setting.put("k", 5);
  setting.keys = ["k"];
  setting.isDown = true;
  for (let second = 0; second <= 3600; second++) await setting.tick(second % 60 === 0 ? 1 : 0);
  assertEquals(setting.events.map(({ event, level }) => `${level} ${event}`), [
    "warning verify_failed",
    "warning verify_failed",
  ]);
});

Deno.test("a key that is wrong again is told once a minute, counted and deleted each time", async () => {
  const setting = new Setting();
  setting.put("k", 4, 5);
  setting.keys = ["k"];
  for (let second = 0; second < 61; second++) await setting.tick(1);
  assertEquals(setting.counts, { stale: 61 });
  assertEquals([setting.events.length, setting.expelled.length], [2, 61]);
});

Deno.test("the meter's own deletions are no changes", async () => {
  const setting = new Setting({ every: 1 });
  setting.put("k", 4, 5);
  setting.keys = ["k"];
  setting.onExpel = (key) => {
    setting.meter.noteDeletion(only(key));
    setting.meter.noteDeletion(only("other"));
    setting.keys = [];
  };
  setting.put("other", 7);
  await setting.tick(1);
  await setting.tick();
  assertEquals(setting.counts, { stale: 1, same: 1 });
  setting.cached.delete("other");
  for (let second = 0; second < 30; second++) await setting.tick();
  assertEquals(setting.counts, { stale: 1, same: 1 });
});
