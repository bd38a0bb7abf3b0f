import { INTERRUPTIONS } from "./disturbances.ts";
import { testDisturbance } from "./disturbed.ts";

for (const disturbance of INTERRUPTIONS) {
  if (disturbance.name.startsWith("a restart")) testDisturbance(disturbance);
}
