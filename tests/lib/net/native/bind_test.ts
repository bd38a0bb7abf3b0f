import { mock } from "node:test";
import { assertEquals } from "@std/assert";
import { bindNative } from "../../../../lib/net/native/bind.ts";
import { NATIVE_OPTIONS } from "../../../support/servers/native_in_process.ts";
import { replaceCalls } from "../../../support/servers/replaced_calls.ts";
import { TRANSPORTS } from "../../../support/servers/server_process.ts";
import { needs } from "../../../support/needs/needs.ts";

const SECONDS_BETWEEN = 5;

Deno.test("freed memory of the C library is given back to the system every few seconds", {
  ...needs("native", TRANSPORTS.includes("native")),
}, (): void => {
  const trims: number[] = [];
  using _replaced = replaceCalls<{ malloc_trim: (keep: number) => number }>(() => ({
    malloc_trim: (keep) => trims.push(keep),
  }));
  mock.timers.enable({ apis: ["setInterval"] });
  try {
    const listen = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "auto" } as const;
    const transport = bindNative([listen], NATIVE_OPTIONS);
    mock.timers.tick(2 * SECONDS_BETWEEN * 1000);
    assertEquals(trims, [0, 0]);
    transport.close();
    mock.timers.tick(2 * SECONDS_BETWEEN * 1000);
    assertEquals(trims, [0, 0]);
  } finally {
    mock.timers.reset();
  }
});
