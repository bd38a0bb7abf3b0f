import { TRANSPORTS } from "../support/servers/server_process.ts";
import { testOverUdp, testOverUnix } from "./sockets.ts";

for (const io of TRANSPORTS) {
  testOverUnix(io);
  testOverUdp(io);
}
