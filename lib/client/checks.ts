import { Buffer } from "node:buffer";

const KEY_BYTES_MAX = 250;
const PLAIN_KEY = /^[\x21-\x7e]{1,250}$/;
// deno-lint-ignore no-control-regex
const FORBIDDEN = /[\x00-\x20\x7f]/;
const ID = /^\d{1,20}$/;
const ID_MAX = "18446744073709551615";
const SHOWN_LENGTH_MAX = 300;
/** With more, memcached 1.6.18 executes the value as requests. */
const META_FLAGS_MAX = 15;
const META_FLAG = /^(?![bkqO])[\x21-\x7e]{1,64}$/;

/** Returns a value of any type as messages show it, at most 300 characters of it. */
export function shown(value: unknown): string {
  const text = typeof value === "string"
    ? JSON.stringify(value)
    : typeof value === "function" || (typeof value === "object" && value !== null)
    ? Object.prototype.toString.call(value)
    : String(value);
  return text.length <= SHOWN_LENGTH_MAX ? text : `${text.slice(0, SHOWN_LENGTH_MAX)}…`;
}

/** @throws TypeError The value is no text. */
export function checkText(name: string, value: string): void {
  if (typeof value !== "string") throw new TypeError(`${name} ${shown(value)}: expected a text`);
}

/** @throws TypeError The value is no function. */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== "function") {
    throw new TypeError(`${name} ${shown(value)}: expected a function`);
  }
}

/**
 * Returns a key's bytes in UTF-8, one character a byte.
 *
 * @throws RangeError The key is empty, longer than 250 bytes, or has blanks or control characters.
 * @throws TypeError It is no text.
 */
export function keyBytes(key: string): string {
  if (typeof key === "string" && PLAIN_KEY.test(key)) return key;
  return prefixedBytes("key", "", key);
}

/**
 * Returns the bytes of a key to which the library adds something, as `keyBytes` does.
 *
 * @param what The name of the part that is not added, in messages.
 * @param suffixLength Length of what the caller will add at the end.
 */
export function prefixedBytes(
  what: string,
  prefix: string,
  name: string,
  suffixLength = 0,
): string {
  const bytesMax = KEY_BYTES_MAX - prefix.length - suffixLength;
  if (typeof name === "string" && name.length <= bytesMax && PLAIN_KEY.test(name)) {
    return prefix + name;
  }
  checkText(what, name);
  const bytes = prefix + Buffer.from(name).toString("latin1");
  const length = bytes.length - prefix.length;
  const problem = length === 0
    ? "it is empty"
    : length > bytesMax
    ? `it has ${length} bytes, ${bytesMax} are allowed`
    : FORBIDDEN.test(bytes)
    ? "blanks and control characters are not allowed"
    : name.isWellFormed()
    ? undefined
    : "half a surrogate pair is not allowed";
  if (problem !== undefined) throw new RangeError(`${what} ${shown(name)}: ${problem}`);
  return bytes;
}

/** @throws RangeError, TypeError: it is no whole number in this range. */
export function checkNumber(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return;
  const Wrong = typeof value === "number" ? RangeError : TypeError;
  throw new Wrong(`${name} ${shown(value)}: expected a whole number from ${min} to ${max}`);
}

/** Whether a text is the decimal id of an item or a token: a number below 2^64. */
export function isId(text: string): boolean {
  return ID.test(text) && (text.length < ID_MAX.length || text <= ID_MAX);
}

/**
 * Checks an id that a request names. 0 is none: servers would take it for no condition.
 *
 * @throws RangeError, TypeError
 */
export function checkId(name: string, id: string): void {
  checkText(name, id);
  if (isId(id) && Number(id) > 0) return;
  throw new RangeError(`${name} ${shown(id)}: expected a decimal number from 1 to ${ID_MAX}`);
}

/** @throws TypeError The value is no Uint8Array. */
export function checkBytes(name: string, bytes: Uint8Array): void {
  if (bytes instanceof Uint8Array) return;
  throw new TypeError(`${name} ${shown(bytes)}: expected a Uint8Array`);
}

/** @throws RangeError The value is none of those allowed. */
export function checkWord(name: string, value: string, allowed: readonly string[]): void {
  if (allowed.includes(value)) return;
  throw new RangeError(`${name} ${shown(value)}: expected ${allowed.join(" or ")}`);
}

/** @throws TypeError The value is no object, or an array. */
export function checkObject(name: string, value: object): void {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  throw new TypeError(`${name} ${shown(value)}: expected an object`);
}

/** The names of all options of a kind: the compiler knows when one is missing. */
export type OptionNames<Options> = Readonly<Record<keyof Required<Options>, true>>;

/** What ends the names of options: a name is likely meant whose beginning is the same. */
const UNIT = /(?:Sec|Ms|Bytes|BytesMax)$/;

/** @throws TypeError It is no object with such options, or its `signal` is no AbortSignal. */
export function checkOptions<Options extends { readonly signal?: AbortSignal }>(
  options: Options | undefined,
  names: OptionNames<Options>,
): void {
  if (options === undefined) return;
  checkObject("options", options);
  for (const name of Object.keys(options)) {
    if (!(name in names)) throw new TypeError(unknownOption(name, names));
  }
  const { signal } = options;
  if (signal === undefined) return;
  if (typeof signal?.aborted !== "boolean" || typeof signal.addEventListener !== "function") {
    throw new TypeError(`signal ${shown(signal)}: expected an AbortSignal`);
  }
}

function unknownOption(name: string, names: object): string {
  const stem = (word: string): string => word.replace(UNIT, "").toLowerCase();
  const known = Object.keys(names);
  const meant = known.find((each) => stem(each) === stem(name));
  const hint = meant === undefined ? "" : `, ${meant} is likely meant`;
  return `option ${shown(name)} is not known${hint}: expected ${known.sort().join(", ")}`;
}

/** Returns the members of an iterable. @throws TypeError It is none, or it is a text. */
export function membersOf<Member>(name: string, members: Iterable<Member>): Member[] {
  if (typeof members === "object" && members !== null) {
    if (typeof members[Symbol.iterator] === "function") return [...members];
  }
  throw new TypeError(`${name} ${shown(members)}: expected an iterable, as an array`);
}

/** Returns the members of an array, or the text alone. @throws TypeError It is neither. */
export function oneOrMore(name: string, texts: string | readonly string[]): readonly string[] {
  return typeof texts === "string" ? [texts] : membersOf(name, texts);
}

/** @throws RangeError, TypeError: one is no flag of a meta command, or cannot be given. */
export function metaFlags(flags: readonly string[]): readonly string[] {
  const words = membersOf("flags", flags);
  for (const flag of words) {
    checkText("flag", flag);
    if (META_FLAG.test(flag)) continue;
    throw new RangeError(
      `flag ${shown(flag)}: expected 1 to 64 printable characters, the first not b, k, q or O`,
    );
  }
  if (words.length <= META_FLAGS_MAX) return words;
  throw new RangeError(`flags, ${words.length}: expected at most ${META_FLAGS_MAX}`);
}
