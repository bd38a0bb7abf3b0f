import { testCuts } from "./cuts.ts";

testCuts("rest");
