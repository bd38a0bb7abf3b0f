import { percentEncoded } from "../../store/base/key_text.ts";
import type { StatEntry, StatSource } from "./entry.ts";

/** Keys shown, at most. */
const SHOWN_MAX = 50;

/**
 * `stats hotkeys`: the keys of the most requests, the hottest first, from samples. Counts of samples halve from time to
 * time, so that the list shows the load of the last minutes.
 */
export function* hotKeyStats({ cache }: Pick<StatSource, "cache">): Generator<StatEntry> {
  const { samples, keys } = cache.inspector.hotKeys;
  yield ["samples", samples];
  yield ["requests_per_sample", cache.inspector.requestsPerSample];
  for (const [index, row] of keys.slice(0, SHOWN_MAX).entries()) {
    const rank = index + 1;
    yield [`${rank}:key`, percentEncoded(row.key)];
    yield [`${rank}:share`, (row.count / samples).toFixed(4)];
    yield [`${rank}:samples`, row.count];
    yield [`${rank}:error`, row.error];
    yield [`${rank}:hits`, row.hits];
    yield [`${rank}:misses`, row.misses];
    yield [`${rank}:writes`, row.writes];
  }
}
