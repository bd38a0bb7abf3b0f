import { testOverSockets } from "./sockets.ts";

testOverSockets("portable");
