import { hostUrls } from "../base/postgres_url.ts";
import { reasonOf } from "../../process/reason.ts";
import { LostError } from "./lost_error.ts";

/** The host of each address that was the primary when it was looked for last. */
const primaries = new Map<string, string>();

/**
 * Opens a connection to the primary of an address. Of several hosts it tries the last primary first, then the others in
 * their order, each for its share of the time.
 *
 * @param open Connects to one host, in the form of an address. @throws When it cannot, or the host is not the primary.
 * @throws The error of `open`; of several hosts LostError if no connection was refused, else an error that names each.
 */
export async function openPrimary<Connection>(
  address: string,
  timeoutMs: number,
  open: (url: string, timeoutMs: number) => Promise<Connection>,
): Promise<Connection> {
  const urls = hostUrls(address);
  if (urls.length === 1) return await open(urls[0]!, timeoutMs);
  const primary = primaries.get(address);
  const first = urls.filter((url) => url === primary);
  const errors: unknown[] = [];
  for (const url of [...first, ...urls.filter((url) => url !== primary)]) {
    try {
      const connection = await open(url, timeoutMs / urls.length);
      primaries.set(address, url);
      return connection;
    } catch (error) {
      errors.push(new Error(`${new URL(url).host}: ${reasonOf(error)}`, { cause: error }));
    }
  }
  const reasons = errors.map(reasonOf).join("; ");
  const areLost = errors.every((error) => (error as Error).cause instanceof LostError);
  throw areLost ? new LostError(reasons) : new Error(reasons);
}
