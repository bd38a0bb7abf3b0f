/** Key streams to replay: rows of a CSV `timestamp,key_id,key_size,value_size,op,ttl`, by column. */
export interface Trace {
  readonly rows: number;
  readonly seconds: Int32Array;
  readonly keys: Int32Array;
  readonly keySizes: Uint8Array;
  readonly valueSizes: Int32Array;
  readonly ttlSeconds: Int32Array;
  /** One more than the largest key id. */
  readonly keyCount: number;
}

/**
 * Reads a gzipped trace. Every row must be a get: that is all the traces here have.
 *
 * @param rowsMax Most rows to read.
 */
export async function readTrace(path: string, rowsMax = Infinity): Promise<Trace> {
  const file = await Deno.open(path);
  const text = await new Response(file.readable.pipeThrough(new DecompressionStream("gzip")))
    .text();
  const lines = text.trimEnd().split("\n");
  const rows = Math.min(rowsMax, lines.length - 1);
  const columns = Array.from({ length: 6 }, () => new Int32Array(rows));
  for (let row = 0; row < rows; row++) {
    for (const [at, cell] of lines[row + 1]!.split(",").entries()) columns[at]![row] = Number(cell);
  }
  const [seconds, keys, keySizes, valueSizes, , ttlSeconds] = columns;
  return {
    rows,
    seconds: seconds!,
    keys: keys!,
    keySizes: Uint8Array.from(keySizes!),
    valueSizes: valueSizes!,
    ttlSeconds: ttlSeconds!,
    keyCount: keys!.reduce((most, key) => Math.max(most, key), -1) + 1,
  };
}
