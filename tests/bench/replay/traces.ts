/** Key streams to replay: rows of a CSV `timestamp,key_id,key_size,value_size,op,ttl`, by column. */
export interface Trace {
  readonly name: string;
  readonly rows: number;
  readonly seconds: Int32Array;
  readonly keys: Int32Array;
  readonly keySizes: Uint8Array;
  readonly valueSizes: Int32Array;
  readonly ttlSeconds: Int32Array;
  /** One more than the largest key id. */
  readonly keyCount: number;
}

const COMMA = 0x2c;
const NEWLINE = 0x0a;
const COLUMNS = 6;

/**
 * Reads a gzipped trace. Every row must be a get: that is all the traces here have.
 *
 * @param limit Most rows to read; 0: all.
 */
export async function readTrace(path: string, limit = 0): Promise<Trace> {
  const file = await Deno.open(path);
  const stream = file.readable.pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const lines = bytes.reduce((count, byte) => byte === NEWLINE ? count + 1 : count, 0);
  const rows = limit > 0 ? Math.min(limit, lines - 1) : lines - 1;
  const trace = {
    name: path.replace(/^.*\//, "").replace(/\.csv\.gz$/, ""),
    rows,
    seconds: new Int32Array(rows),
    keys: new Int32Array(rows),
    keySizes: new Uint8Array(rows),
    valueSizes: new Int32Array(rows),
    ttlSeconds: new Int32Array(rows),
    keyCount: 0,
  };
  const row = new Float64Array(COLUMNS);
  let at = bytes.indexOf(NEWLINE) + 1;
  for (let index = 0; index < rows; index++) {
    at = readRow(bytes, at, row);
    trace.seconds[index] = row[0]!;
    trace.keys[index] = row[1]!;
    trace.keySizes[index] = row[2]!;
    trace.valueSizes[index] = row[3]!;
    trace.ttlSeconds[index] = row[5]!;
    trace.keyCount = Math.max(trace.keyCount, row[1]! + 1);
  }
  return trace;
}

/** Reads the numbers of one line; a word (the op) counts as 0. Returns where the next line starts. */
function readRow(bytes: Uint8Array, start: number, row: Float64Array): number {
  let at = start;
  for (let column = 0; column < COLUMNS; column++) {
    let value = 0;
    for (; at < bytes.length && bytes[at] !== COMMA && bytes[at] !== NEWLINE; at++) {
      const digit = bytes[at]! - 0x30;
      if (digit >= 0 && digit <= 9) value = value * 10 + digit;
    }
    row[column] = value;
    at++;
  }
  return at;
}
