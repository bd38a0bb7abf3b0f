import { TRANSPORTS } from "../support/servers/server_process.ts";
import { testOverSockets } from "./sockets.ts";

if (TRANSPORTS.includes("native")) testOverSockets("native");
