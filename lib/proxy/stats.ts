import type { Proxy } from "./proxy.ts";

/** Yields the lines of the proxy's `stats`. */
export function* proxyStats(proxy: Proxy): Generator<readonly [name: string, value: number]> {
  yield ["epoch", proxy.states.epoch];
  yield ["deposed", proxy.isDeposed ? 1 : 0];
  yield ["caches", proxy.caches.all.length];
  yield ["caches_outside", proxy.caches.outside.length];
  yield ["caches_epoch", proxy.caches.epoch];
  for (const [state, count] of Object.entries(proxy.states.counts())) {
    yield [`tokens_${state}`, count];
  }
  for (const [name, count] of Object.entries(proxy.counts)) {
    yield [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), count];
  }
}
