import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

// Hashes of passwords, as text in the PHC string format: `$scrypt$ln=14,r=8,p=5$<salt>$<hash>`, both in base64 without
// padding.

interface Hash {
  /** log2 of scrypt's N. */
  readonly costBits: number;
  readonly blockSize: number;
  readonly parallelism: number;
  readonly salt: Uint8Array;
  readonly digest: Uint8Array;
}

/** Parameters of new hashes (OWASP): 16 MiB, about a tenth of a second. */
const COST_BITS = 14;
const BLOCK_SIZE = 8;
const PARALLELISM = 5;
const SALT_BYTES = 16;
const DIGEST_BYTES = 32;
/** Maximum cost of one check. */
const MEMORY_BYTES_MAX = 64 * 1024 * 1024;
const WORK_MAX = 16 * (1 << COST_BITS) * BLOCK_SIZE * PARALLELISM;

const PREFIX = "$scrypt$";
const FORM = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

/** Whether the text has the prefix of a hash. */
export function isHash(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Reads a hash. Returns a mistake as a text, to follow "the hash". */
export function parseHash(text: string): Hash | string {
  const match = FORM.exec(text);
  if (match === null) return "must be $scrypt$ln=…,r=…,p=…$<salt>$<hash>";
  const numbers = match.slice(1, 4).map(Number);
  const [costBits, blockSize, parallelism] = numbers as [number, number, number];
  const bytes = 128 * blockSize * 2 ** costBits;
  if (costBits < 1 || blockSize < 1 || parallelism < 1) return "must have ln, r and p above 0";
  if (bytes > MEMORY_BYTES_MAX) {
    return `must take at most ${MEMORY_BYTES_MAX} bytes of memory (128 r 2^ln), takes ${bytes}`;
  }
  if (2 ** costBits * blockSize * parallelism > WORK_MAX) {
    return `must have 2^ln r p of at most ${WORK_MAX}`;
  }
  const digest = fromBase64(match[5]!);
  const salt = fromBase64(match[4]!);
  if (digest === null || salt === null || digest.length < DIGEST_BYTES / 2) {
    return `must have a digest of at least ${DIGEST_BYTES / 2} bytes`;
  }
  return { costBits, blockSize, parallelism, salt, digest };
}

/** Hashes a password with a new salt. */
export async function hashPassword(password: Uint8Array): Promise<string> {
  const salt = new Uint8Array(randomBytes(SALT_BYTES));
  const parameters = { costBits: COST_BITS, blockSize: BLOCK_SIZE, parallelism: PARALLELISM, salt };
  const digest = await derive(password, parameters, DIGEST_BYTES);
  return `${PREFIX}ln=${COST_BITS},r=${BLOCK_SIZE},p=${PARALLELISM}$${toBase64(salt)}$${
    toBase64(digest)
  }`;
}

/** Whether a password has this hash, as `hashPassword` returned it. Compares in constant time. */
export async function isPasswordOf(password: Uint8Array, text: string): Promise<boolean> {
  const hash = parseHash(text);
  if (typeof hash === "string") return false;
  return timingSafeEqual(await derive(password, hash, hash.digest.length), hash.digest);
}

/** Runs on a thread of the runtime's pool. */
function derive(
  password: Uint8Array,
  { costBits, blockSize, parallelism, salt }: Omit<Hash, "digest">,
  length: number,
): Promise<Uint8Array> {
  const options = {
    N: 2 ** costBits,
    r: blockSize,
    p: parallelism,
    maxmem: 2 * MEMORY_BYTES_MAX,
  };
  return new Promise((resolve, reject) => {
    scrypt(password, salt, length, options, (error, digest) => {
      if (error !== null) reject(error);
      else resolve(new Uint8Array(digest));
    });
  });
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/=+$/, "");
}

function fromBase64(text: string): Uint8Array | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}
