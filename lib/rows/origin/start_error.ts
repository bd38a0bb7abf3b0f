import { reasonOf } from "../../process/reason.ts";

/** A part of the start failed. `isUsage`: for a fault of an option. */
export class StartError extends Error {
  readonly isUsage: boolean;

  constructor(what: string, cause: unknown, isUsage = false) {
    super(`${what}: ${reasonOf(cause)}`);
    this.isUsage = isUsage;
  }
}
