import { type Batch, Batches, BatchesInTurn, type Dialogue } from "../generator.ts";
import { eachKey, ROWS, seededRandom, THREAD_ROWS } from "../rows.ts";
import { Mix } from "./mix.ts";
import { Tokens } from "./tokens.ts";

/** A load, as a thread is told of it. */
export type LoadName =
  /** A row by its name, or the load that it is compared with. */
  | { readonly row: string; readonly against: boolean }
  | { readonly batches: readonly Batch[] }
  /** Gets, or sets, of keys with a number below `keys`, each in its turn. */
  | { readonly each: "get" | "set"; readonly keys: number }
  | "mix"
  | "tokens";

export function dialogueOf(load: LoadName, seed: number): Dialogue {
  const random = seededRandom(seed);
  if (load === "mix") return new Mix(random);
  if (load === "tokens") return new Tokens();
  if ("batches" in load) return new Batches(load.batches);
  if ("each" in load) return new BatchesInTurn(eachKey(load.each, load.keys));
  const row = [...ROWS, ...THREAD_ROWS].find(({ name }) => name === load.row)!;
  return new Batches(load.against ? row.against!(random) : row.batches(random));
}
