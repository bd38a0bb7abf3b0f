import { TRANSPORTS } from "../support/servers/server_process.ts";
import { testOverTls } from "./sockets.ts";

if (TRANSPORTS.includes("native")) testOverTls("native");
