import { print } from "./command_line.ts";
import { ExitCode } from "./exit.ts";
import { writeRefusal } from "../process/log.ts";
import { hashPassword } from "../auth/scrypt.ts";
import { parseUserFile, UserFileError } from "../auth/user_file.ts";

const USAGE =
  "usage: leased passwd <user> [read|write|node|admin]; the password comes from the terminal, or from stdin";
/** Longer passwords are refused: SASL and the text protocol would never match them. */
const PASSWORD_BYTES_MAX = 255;
const CTRL_C = 0x03;
const CTRL_D = 0x04;
const BACKSPACE = [0x08, 0x7f];
const LINE_ENDS = [0x0a, 0x0d];

/** `leased passwd <user> [<level>]`: asks for a password and prints a line for the user file, with its hash. */
export async function runPasswd(words: readonly string[]): Promise<ExitCode> {
  if (words[0] === "--help" || words[0] === "-h") {
    print(`${USAGE}\n`);
    return ExitCode.OK;
  }
  const isFlag = words.some((word) => word.startsWith("-"));
  if (isFlag || words.length < 1 || words.length > 2) {
    writeRefusal("text", "usage_error", USAGE);
    return ExitCode.USAGE;
  }
  try {
    const name = new TextEncoder().encode(`${words.join(" ")}:`);
    // Mistakes in the name are found before the password is asked for.
    parseUserFile(Uint8Array.of(...name, ...new TextEncoder().encode("x")), "");
    const password = Deno.stdin.isTerminal() ? readTwice() : readLine();
    print(`${words.join(" ")}:${await hashPassword(password)}\n`);
    return ExitCode.OK;
  } catch (error) {
    if (!(error instanceof UserFileError || error instanceof PasswordError)) throw error;
    const reason = error instanceof UserFileError ? error.reason : error.message;
    writeRefusal("text", "usage_error", reason);
    return ExitCode.USAGE;
  }
}

/** The password cannot be used. */
class PasswordError extends Error {
  override readonly name = "PasswordError";
}

/** Asks twice, because the terminal does not show the password. */
function readTwice(): Uint8Array {
  const password = readHidden("Password: ");
  const again = readHidden("Again: ");
  if (password.length !== again.length || password.some((byte, at) => byte !== again[at])) {
    throw new PasswordError("the passwords differ");
  }
  return password;
}

/** Reads a line from the terminal without echo. */
function readHidden(prompt: string): Uint8Array {
  const show = (text: string): void => {
    Deno.stderr.writeSync(new TextEncoder().encode(text));
  };
  // Before the prompt: a program that waits for it may answer at once.
  Deno.stdin.setRaw(true);
  try {
    show(prompt);
    return checked(readBytes(editTyped));
  } finally {
    Deno.stdin.setRaw(false);
    show("\n");
  }
}

/** Reads a line from a file or a pipe. */
function readLine(): Uint8Array {
  return checked(readBytes((bytes, byte) => bytes.push(byte)));
}

/** Adds a typed byte to the line, or executes a control character. */
function editTyped(bytes: number[], byte: number): void {
  if (byte === CTRL_C || byte === CTRL_D) throw new PasswordError("no password");
  if (!BACKSPACE.includes(byte)) {
    bytes.push(byte);
    return;
  }
  // The character before may have several bytes of UTF-8.
  let removed = bytes.pop() ?? 0;
  while ((removed & 0xc0) === 0x80) removed = bytes.pop() ?? 0;
}

/** Reads bytes up to the end of a line, or of the input. */
function readBytes(add: (bytes: number[], byte: number) => void): number[] {
  const bytes: number[] = [];
  const buffer = new Uint8Array(1);
  while (Deno.stdin.readSync(buffer) === 1) {
    const byte = buffer[0]!;
    if (LINE_ENDS.includes(byte)) break;
    add(bytes, byte);
    if (bytes.length > PASSWORD_BYTES_MAX) break;
  }
  return bytes;
}

function checked(bytes: readonly number[]): Uint8Array {
  if (bytes.length > 0 && bytes.length <= PASSWORD_BYTES_MAX) return Uint8Array.from(bytes);
  throw new PasswordError(`the password must have 1 to ${PASSWORD_BYTES_MAX} bytes`);
}
