import { assertEquals, assertRejects } from "@std/assert";
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  context,
  type ContextManager,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  trace,
} from "npm:@opentelemetry/api@1.9.0";
import { Cache } from "../../../lib/client/mod.ts";
import { startLeased } from "./servers.ts";

// Spans, by the package that applications have.

/** The part of a span that the test notes. */
interface Noted {
  readonly name: string;
  readonly parent: string | undefined;
  readonly attributes: Record<string, unknown>;
  error: string | undefined;
  isEnded: boolean;
}

const names = new Map<unknown, string>();

function notingSpan(noted: Noted): Span {
  const span = {
    setAttribute: (name: string, value: unknown) => {
      noted.attributes[name] = value;
      return span;
    },
    recordException: () => {},
    setStatus: ({ code, message }: { code: SpanStatusCode; message?: string }) => {
      if (code === SpanStatusCode.ERROR) noted.error = message;
      return span;
    },
    end: () => noted.isEnded = true,
  } as unknown as Span;
  names.set(span, noted.name);
  return span;
}

function contextManager(): ContextManager {
  const storage = new AsyncLocalStorage<Context>();
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, fn, self, ...args) => storage.run(active, () => fn.call(self!, ...args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  return manager;
}

Deno.test("flows are spans, and what the application does in them their children", async () => {
  const spans: Noted[] = [];
  const start = (name: string): Span => {
    const parent = names.get(trace.getSpan(context.active()));
    const noted = { name, parent, attributes: {}, error: undefined, isEnded: false };
    spans.push(noted);
    return notingSpan(noted);
  };
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`, { replyMs: 20_000 });
  await cache.getOrLoad("before", () => 1);
  trace.setGlobalTracerProvider({
    getTracer: () => ({ startSpan: start, startActiveSpan: () => undefined as never }),
  });
  context.setGlobalContextManager(contextManager());
  try {
    const query = (): number => {
      trace.getTracer("database").startSpan("query").end();
      return 1;
    };
    await cache.getOrLoad("k", query);
    await cache.getOrLoad("k", query);
    await cache.getOrLoadMany(["k", "l"], (keys) => new Map(keys.map((key) => [key, query()])));
    await cache.put("k", query, { form: "tokens" });
    await cache.withLock("k", query);
    const fail = (): never => {
      throw new Error("no database");
    };
    await assertRejects(() => cache.getOrLoad("m", fail), Error, "no database");
  } finally {
    trace.disable();
    context.disable();
    propagation.disable();
  }
  await cache.getOrLoad("after", () => 1);
  const noted = spans.map(({ name, parent, attributes, error, isEnded }) => {
    assertEquals(isEnded, true, name);
    return [name, parent, ...Object.values(attributes), error];
  });
  assertEquals(noted, [
    ["getOrLoad", undefined, ["k"], "load", false, undefined],
    ["query", "getOrLoad", undefined],
    ["getOrLoad", undefined, ["k"], "cache", false, undefined],
    ["getOrLoadMany", undefined, ["k", "l"], undefined],
    ["query", "getOrLoadMany", undefined],
    ["put", undefined, ["k"], undefined],
    ["query", "put", undefined],
    ["withLock", undefined, ["k"], undefined],
    ["query", "withLock", undefined],
    ["getOrLoad", undefined, ["m"], "no database"],
  ]);
});
