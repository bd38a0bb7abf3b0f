import manifest from "../deno.json" with { type: "json" };

/** Our own version, as deno.json says it. */
export const VERSION: string = manifest.version;
