import { Buffer } from "node:buffer";
import { type CommitOutcome, OutcomeUnknownError, UnfinishedError } from "../errors.ts";
import { CommitError, NoTokenError, type Put, type Token, type Unfinished } from "../flows/put.ts";
import type { ClientFlow } from "../flows/steps.ts";
import type { Run } from "../run.ts";

/** Does the step behind a commit again. @throws UnfinishedError */
type Retry<Item> = (items: readonly Item[]) => Promise<void>;

/** Throws if a server did not confirm a step behind the commit. */
export function throwUnfinished<Item extends string | Token>(
  unfinished: Unfinished<Item> | undefined,
  retry: Retry<Item>,
): void {
  if (unfinished !== undefined) throw unfinishedError(unfinished, retry);
}

/**
 * Drives the flow of a `put`, and tells of update tokens that stay out.
 *
 * @returns What the commit has returned.
 * @throws What `put` throws.
 */
export async function finishPut<Item extends string | Token>(
  run: Run<unknown>,
  flow: ClientFlow<unknown, Put<Item>>,
  retry: Retry<Item>,
): Promise<unknown> {
  const unconfirmed = (unfinished: Unfinished<Item>, end: End): Error => {
    const error = unfinishedError(unfinished, retry, end);
    const areTokens = typeof unfinished.items[0] !== "string";
    return areTokens ? run.tokensStayOut(error.keys, error) : error;
  };
  let put: Put<Item>;
  try {
    put = await run.drive(flow);
  } catch (error) {
    if (error instanceof NoTokenError) {
      throw run.tokensStayOut(namesOf(error.unfinished.items), error.error);
    }
    if (!(error instanceof CommitError)) throw error;
    const { kept, unfinished } = error as CommitError<Item>;
    if (unfinished !== undefined) throw unconfirmed(unfinished, { cause: error.error });
    if (kept.length === 0) throw error.error;
    const resolve = async (): Promise<CommitOutcome> => {
      await retry(kept as readonly Token[] as readonly Item[]);
      return "told";
    };
    const keys = namesOf(kept);
    throw run.tokensStayOut(keys, new OutcomeUnknownError(keys, resolve, error.error));
  }
  const { result, unfinished } = put;
  if (unfinished !== undefined) throw unconfirmed(unfinished, { result });
  return result;
}

/** The end of a transaction: what `commit` has returned, or thrown. */
interface End {
  readonly cause?: unknown;
  readonly result?: unknown;
}

function unfinishedError<Item extends string | Token>(
  unfinished: Unfinished<Item>,
  retry: Retry<Item>,
  { cause = unfinished.cause, result }: End = {},
): UnfinishedError {
  const { items } = unfinished;
  const message = typeof items[0] === "string"
    ? "not invalidated, readers may get old values"
    : "update tokens not released, the keys are not cached";
  return new UnfinishedError(message, namesOf(items), () => retry(items), cause, result);
}

/** Returns keys as text, with the prefix of the cache and the names of namespaces. */
export function namesOf(items: readonly (string | Token)[]): string[] {
  return items.map((item) => {
    const bytes = typeof item === "string" ? item : item.key;
    return Buffer.from(bytes, "latin1").toString();
  });
}
