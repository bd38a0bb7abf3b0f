// A process of a herd: herd_caller.ts <server> <port of the database> <callers>
// For each line of its input all callers want the key `hot` at once: by getOrLoad, or by get if the database is the
// server's own (port 0). It prints the distinct values that they get.
import { TextLineStream } from "@std/streams";
import { Cache, textCodec } from "../../../lib/client/mod.ts";

const [server, port, callers] = Deno.args;
const PATIENT_MS = 100_000;
const cache = new Cache<string>(server!, { codec: textCodec, replyMs: PATIENT_MS });
const load = async (): Promise<string> => await (await fetch(`http://127.0.0.1:${port}/`)).text();
const options = { leaseSec: PATIENT_MS / 1000, waitMs: PATIENT_MS, hardMs: PATIENT_MS };

const lines = Deno.stdin.readable.pipeThrough(new TextDecoderStream())
  .pipeThrough(new TextLineStream());
for await (const _ of lines) {
  const calls = Array.from(
    { length: Number(callers) },
    () => port === "0" ? cache.get("hot") : cache.getOrLoad("hot", load, options),
  );
  // deno-lint-ignore no-console -- its output is its result
  console.log([...new Set(await Promise.all(calls))].join());
}
await cache.close();
