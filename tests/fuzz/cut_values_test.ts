import { testCuts } from "./cuts.ts";

testCuts("values");
