import { keyBytes, oneOrMore, prefixedBytes, shown } from "./checks.ts";

const TAG_PREFIX = "tag:";
const NAMESPACE_PREFIX = "namespace:";
/** Bytes that the prefix of a cache leaves to its keys. */
const KEY_BYTES_MIN = 50;

/** The keys of a cache, or of a namespace in it. All are bytes, one character a byte. */
export class KeySpace {
  /** Stands before all keys and tags of the cache. */
  readonly #prefix: string;
  /** The names of the namespaces, outer ones first: a slash between two, a colon behind the last. */
  readonly #path: string;
  /** The keys of the tags that all values have: of the namespace, last, and of those around it. */
  readonly tags: readonly string[];

  private constructor(prefix: string, path: string, tags: readonly string[]) {
    this.#prefix = prefix;
    this.#path = path;
    this.tags = tags;
  }

  /** @throws RangeError, TypeError: the prefix is no beginning of a key. */
  static of(prefix = ""): KeySpace {
    const bytes = prefix === "" ? "" : prefixedBytes("prefix", "", prefix, KEY_BYTES_MIN);
    return new KeySpace(bytes, "", []);
  }

  /**
   * Returns the bytes of a key.
   *
   * @param suffixLength Length of what the caller will add at the end.
   * @throws RangeError, TypeError: it is no key.
   */
  keyOf(key: string, suffixLength = 0): string {
    const prefix = this.#prefix + this.#path;
    if (prefix === "" && suffixLength === 0) return keyBytes(key);
    return prefixedBytes("key", prefix, key, suffixLength);
  }

  /** Returns the bytes of one or more keys. @throws RangeError, TypeError */
  keysOf(keys: string | readonly string[]): string[] {
    return oneOrMore("keys", keys).map((key) => this.keyOf(key));
  }

  /** Returns the keys whose items' ids are the versions of tags, each once. @throws RangeError, TypeError */
  tagsOf(tags: string | readonly string[]): string[] {
    const prefix = TAG_PREFIX + this.#prefix;
    return [...new Set(oneOrMore("tags", tags))].map((tag) => prefixedBytes("tag", prefix, tag));
  }

  /**
   * Returns the keys of a namespace.
   *
   * @throws RangeError, TypeError: the name is no part of a key, or has a colon or a slash. With them, a key of one
   *   namespace could be that of another.
   */
  within(name: string): KeySpace {
    const before = TAG_PREFIX + this.#prefix + NAMESPACE_PREFIX;
    const tag = prefixedBytes("name", before + this.#path.replace(/:$/, "/"), name);
    if (/[:/]/.test(name)) throw new RangeError(`name ${shown(name)}: ":" and "/" are not allowed`);
    return new KeySpace(this.#prefix, `${tag.slice(before.length)}:`, [...this.tags, tag]);
  }
}

/** The keys of a cache without a prefix. */
export const ALL_KEYS: KeySpace = KeySpace.of();
