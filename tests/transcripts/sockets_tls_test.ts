import { TRANSPORTS } from "../support/servers/server_process.ts";
import { testOverTls } from "./sockets.ts";

for (const io of TRANSPORTS) testOverTls(io);
