import { UnfinishedError } from "../errors.ts";
import type { Token, Unfinished } from "../flows/put.ts";

/** Throws if a server did not confirm a step behind the commit. @param retry Does the step again. */
export function throwUnfinished<Item extends string | Token>(
  unfinished: Unfinished<Item> | undefined,
  retry: (items: readonly Item[]) => Promise<void>,
  { cause = unfinished?.cause, result }: { cause?: unknown; result?: unknown } = {},
): void {
  if (unfinished === undefined) return;
  const { items } = unfinished;
  const keys = items.map((item) => typeof item === "string" ? item : item.key);
  const message = typeof items[0] === "string"
    ? "not invalidated, readers may get old values"
    : "update tokens not released, the keys are not cached";
  throw new UnfinishedError(message, keys, () => retry(items), cause, result);
}
