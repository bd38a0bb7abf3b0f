import { IO_WAYS } from "../support/servers/server_process.ts";
import { testOverWay } from "./sockets.ts";

// Those without `ioUring` have tests of their own, which run beside these.
for (const way of IO_WAYS) if (way.ioUring !== undefined) testOverWay(way);
