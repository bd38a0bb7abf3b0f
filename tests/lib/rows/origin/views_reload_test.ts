// Reloads of the views' file, beside a database that takes as long as a test says.
import { assertEquals } from "@std/assert";
import type { PreparedViews } from "../../../../lib/databases/base/backend.ts";
import { ViewsReload } from "../../../../lib/rows/origin/views_reload.ts";
import type { Views } from "../../../../lib/databases/views/view.ts";

/** A file of views, and the steps that its reloads have taken. */
class World {
  /** The path stands for the content; "": a mistake. */
  file = "first";
  served = "none";
  readonly steps: string[] = [];
  readonly events: string[] = [];
  /** Lets the preparation of a file end. */
  readonly prepared = new Map<string, PromiseWithResolvers<void>>();
  expelled: Promise<void> = Promise.resolve();
  readonly reload = new ViewsReload({
    read: () => {
      this.steps.push(`read ${this.file}`);
      if (this.file === "") throw new Error("line 1: a mistake");
      const view = { name: "v", maxAgeSec: 0, query: `SELECT ${this.file}` };
      return { all: [view], path: this.file } as unknown as Views;
    },
    prepare: async ({ path }) => {
      await this.prepared.get(path)?.promise;
      return {} as PreparedViews;
    },
    replace: ({ path }) => {
      const before = this.served;
      this.served = path;
      this.steps.push(`serve ${path}`);
      return Promise.resolve([before, path]);
    },
    expelReplaced: (prefixes) => {
      this.steps.push(`expel ${prefixes}`);
      return this.expelled;
    },
    report: ({ level, message }) => this.events.push(`${level} ${message}`),
  });
}

/** Lets everything run that waits for no event. */
function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

Deno.test("the newest file of views wins, also when the queries of one before take longer", async () => {
  const world = new World();
  const slow = Promise.withResolvers<void>();
  world.prepared.set("first", slow);
  const first = world.reload.request();
  await turn();
  world.file = "second";
  const second = world.reload.request();
  await turn();
  slow.resolve();
  await Promise.all([first, second]);
  assertEquals(world.served, "second");
  assertEquals(world.steps, [
    ...["read first", "serve first", "expel none,first"],
    ...["read second", "serve second", "expel first,second"],
  ]);
});

Deno.test("a reload waits until the keys of the views before are deleted", async () => {
  const world = new World();
  const slow = Promise.withResolvers<void>();
  world.expelled = slow.promise;
  const first = world.reload.request();
  await turn();
  world.file = "second";
  const second = world.reload.request();
  await turn();
  assertEquals(world.served, "first");
  slow.resolve();
  await Promise.all([first, second]);
  assertEquals(world.served, "second");
});

Deno.test("a file with mistakes changes nothing, and the next one is read", async () => {
  const world = new World();
  await world.reload.request();
  world.file = "";
  await world.reload.request();
  assertEquals(world.served, "first");
  world.file = "third";
  await world.reload.request();
  assertEquals(world.served, "third");
  assertEquals(world.events, [
    "info SIGHUP: 1 views are served, first",
    "error SIGHUP: the views stay as they are: line 1: a mistake",
    "info SIGHUP: 1 views are served, third",
  ]);
});

Deno.test("a view that grows old unnoticed is warned of when it is served", async () => {
  const world = new World();
  world.file = "now()";
  await world.reload.request();
  const warning =
    "warning view v: its result depends on now(), no change of which is noticed: give it a max-age";
  assertEquals(world.events, ["info SIGHUP: 1 views are served, now()", warning]);
});
