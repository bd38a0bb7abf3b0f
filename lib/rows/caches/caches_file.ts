import { valueOr } from "../../cli/values.ts";
import { readServerAddress } from "../../cli/listen.ts";
import { hostPortText } from "../../net/transport.ts";

const WEIGHT_MAX = 1000;
const FORM =
  `must be <host>:<port>, or <host>:<port> <weight>, with a port of 1..65535 and a weight of 1..${WEIGHT_MAX}`;

/** A cache, as options and files name it. */
export interface CacheAddress {
  readonly hostname: string;
  readonly port: number;
  /** The cache's share of the keys, beside the weights of the others. */
  readonly weight: number;
}

/** Returns `host:port`, the name of a cache. */
export function cacheName({ hostname, port }: Pick<CacheAddress, "hostname" | "port">): string {
  return hostPortText(hostname, port);
}

/**
 * Parses a file of caches: one to a line, `host:port` or `host:port weight`. Skips empty lines, and everything behind
 * `#`.
 *
 * @param path Names the file in errors.
 * @throws RangeError with all mistakes, each with its line and the allowed form.
 */
export function parseCachesFile(text: string, path: string): CacheAddress[] {
  const errors: string[] = [];
  const caches: CacheAddress[] = [];
  const lineOf = new Map<string, number>();
  for (const [index, line] of text.split("\n").entries()) {
    const words = line.replace(/#.*/, "").trim().split(/\s+/);
    const [word = "", weightWord = "1"] = words;
    if (word === "") continue;
    const label = `${path} line ${index + 1}: ${JSON.stringify(words.join(" "))}`;
    const address = valueOr(undefined, () => readServerAddress(word), [], label);
    const weight = /^\d{1,4}$/.test(weightWord) ? Number(weightWord) : 0;
    if (address === undefined || weight < 1 || weight > WEIGHT_MAX || words.length > 2) {
      errors.push(`${label}: ${FORM}`);
      continue;
    }
    const name = cacheName(address);
    const first = lineOf.get(name);
    if (first !== undefined) errors.push(`${label}: ${name} is named on line ${first}, too`);
    lineOf.set(name, index + 1);
    caches.push({ ...address, weight });
  }
  if (errors.length === 0 && caches.length === 0) errors.push(`${path}: names no cache`);
  if (errors.length > 0) throw new RangeError(errors.join("; "));
  return caches;
}
