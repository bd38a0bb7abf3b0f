import { AUTH_FAULTS } from "./auth_faults.ts";
import type { Fault } from "./fault.ts";
import { LIB_FAULTS } from "./lib_faults.ts";
import { PARALLEL_FAULTS } from "./parallel_faults.ts";
import { PROTOCOL_FAULTS } from "./protocol_faults.ts";
import { PROXY_FAULTS } from "./proxy_faults.ts";
import { READ_FAULTS } from "./read_faults.ts";
import { ROW_FAULTS } from "./row_faults.ts";
import { STORE_FAULTS } from "./store_faults.ts";
import { TLS_FAULTS } from "./tls_faults.ts";

/** The faults that `deno task mutants` plants. */
export const FAULTS: readonly Fault[] = [
  ...STORE_FAULTS,
  ...ROW_FAULTS,
  ...READ_FAULTS,
  ...PARALLEL_FAULTS,
  ...PROTOCOL_FAULTS,
  ...LIB_FAULTS,
  ...AUTH_FAULTS,
  ...TLS_FAULTS,
  ...PROXY_FAULTS,
];
