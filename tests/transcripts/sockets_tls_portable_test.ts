import { testOverTls } from "./sockets.ts";

testOverTls("portable");
