import { testCuts } from "./cuts.ts";

testCuts("binary");
