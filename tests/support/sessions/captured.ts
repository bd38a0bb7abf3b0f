/** The text written to the terminal meanwhile. */
export interface Captured<Result> {
  readonly result: Result;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Calls a function, and keeps what it writes to stdout and stderr.
 *
 * @param pieceBytes Longest piece that stdout takes at once, as a pipe may do.
 */
export async function captured<Result>(
  run: () => Result | Promise<Result>,
  pieceBytes = Infinity,
): Promise<Captured<Result>> {
  const texts = { stdout: "", stderr: "" };
  const names = ["stdout", "stderr"] as const;
  const originals = names.map((name) => Deno[name].writeSync);
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for (const name of names) {
    Deno[name].writeSync = (bytes) => {
      const part = bytes.subarray(0, name === "stdout" ? pieceBytes : undefined);
      texts[name] += decoders[name].decode(part, { stream: true });
      return part.length;
    };
  }
  try {
    const result = await run();
    return { result, ...texts };
  } finally {
    for (const [index, name] of names.entries()) Deno[name].writeSync = originals[index]!;
  }
}
