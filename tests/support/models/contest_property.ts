import * as fc from "npm:fast-check@4.10.2";

/** Input of a contest. The same plan plays the same requests. */
export interface ContestPlan {
  /** Seeds what the whole sequence has in common, such as how frequent each command is. */
  readonly seed: number;
  /** One seed for each step. A step without its neighbours stays the same step. */
  readonly steps: readonly number[];
}

/**
 * Plays a plan to a store and to its model.
 *
 * @throws Error when the two disagree.
 */
export type PlayContest = (plan: ContestPlan) => void;

export interface ContestSize {
  /** Sequences to play. */
  readonly runs: number;
  /** Mean length of a sequence. */
  readonly steps: number;
}

/** Shorter sequences that are tried after a failure. */
const SHRINKS_MAX = 1000;

/**
 * Plays random sequences.
 *
 * @throws Error of the shortest sequence found that fails, with its requests.
 */
export function checkContest(play: PlayContest, seed: number, { runs, steps }: ContestSize): void {
  const seeds = fc.noShrink(fc.integer());
  const plans = fc.record({
    seed: seeds,
    steps: fc.array(seeds, { maxLength: 2 * steps, size: "max" }),
  });
  const property = fc.property(fc.noBias(fc.limitShrink(plans, SHRINKS_MAX)), play);
  const result = fc.check(property, { seed: seed | 0, numRuns: runs });
  if (!result.failed) return;
  const error = result.errorInstance;
  if (!(error instanceof Error)) throw new TypeError(`Cannot play a contest: ${error}`);
  error.message += `\n(steps left of the failing sequence: ${
    result.counterexample![0].steps.length
  })`;
  throw error;
}

/**
 * Runs `body`, which notes each request that it sends, and puts the last of them into the message
 * of an error.
 */
export function withRequests(body: (note: (request: string) => void) => void): void {
  const requests: string[] = [];
  try {
    body((request) => {
      requests.push(
        request.length <= SHOWN_LENGTH ? request : `${request.slice(0, SHOWN_LENGTH)}…`,
      );
    });
  } catch (error) {
    if (error instanceof Error) {
      error.message += `\nRequests so far: ${requests.length}; the last of them:\n  ` +
        requests.slice(-SHOWN_REQUESTS).join("\n  ");
    }
    throw error;
  }
}

const SHOWN_REQUESTS = 40;
const SHOWN_LENGTH = 120;
