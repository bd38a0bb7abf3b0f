import type { Row } from "../scenario.ts";
import { CLIENT } from "./client.ts";
import { FAULTS } from "./faults.ts";
import { PROXY } from "./proxy.ts";
import { TOKENS } from "./tokens.ts";
import { DIRTY_WINDOWS, FILLS, FLOWS, MEETINGS } from "./leases.ts";

/** All scenarios of the test. */
export const ROWS: readonly Row[] = [
  ...FLOWS,
  ...MEETINGS,
  ...DIRTY_WINDOWS,
  ...FILLS,
  ...TOKENS,
  ...PROXY,
  ...FAULTS,
  ...CLIENT,
];
