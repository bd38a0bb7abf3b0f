// Starts the server with the arguments given, in a process that may not use io_uring, as in many containers.
import { EPERM } from "../../../lib/net/native/libc.ts";
import { failingSetup } from "./failing_setup.ts";

failingSetup(EPERM);
await import("../../../main.ts");
