import {
  AT,
  CHUNK,
  chunk,
  fill,
  GARBAGE,
  Key,
  NONE,
  type Note,
  type Store,
  type Value,
} from "./bucket_memory.ts";

/** A step of a change: a store, or a note. */
export type Change = Generator<Store, void, void>;

/** How a writer announces a change. */
export interface Announcement {
  /** The changes that it forgets to announce, by name. */
  readonly forgets?: string;
  /** It makes the version odd, and even again, when the change is done. */
  readonly isLate?: boolean;
  /** Groups are those of the buckets that there are, not of the hashes. */
  readonly byBucket?: boolean;
}

/** The writer: one change after the other, under the mutex. It reads its own words at once. */
export class Writer {
  readonly #words: readonly number[];
  readonly #how: Announcement;
  #id = 1;

  constructor(words: readonly number[], how: Announcement) {
    this.#words = words;
    this.#how = how;
  }

  /** Stores another value of the same length over the old one. */
  *overwrite(key: Key, value: Value): Change {
    const item = this.#find(key);
    yield* this.#announced("overwrite", key, value, function* (): Change {
      const words = value.split(" ").map(Number);
      for (const [index, word] of words.entries()) yield store(item + CHUNK.VALUE + index, word);
    });
  }

  /** Appends a word in place. */
  *append(key: Key, word: number): Change {
    const item = this.#find(key);
    const length = this.#words[item + CHUNK.LENGTH]!;
    const old = this.#words.slice(item + CHUNK.VALUE, item + CHUNK.VALUE + length);
    yield* this.#announced("append", key, [...old, word].join(" "), function* (): Change {
      yield store(item + CHUNK.LENGTH, length + 1);
      yield store(item + CHUNK.VALUE + length, word);
    });
  }

  /** Stores a value in another chunk, and frees the old one. */
  *replace(key: Key, value: Value, to: number): Change {
    const item = this.#find(key);
    const link = this.#linkTo(item, key);
    // Nobody can reach the new chunk yet.
    for (const word of fill(chunk(to), key, this.#words[item + CHUNK.NEXT]!, value, ++this.#id)) {
      yield word;
    }
    yield* this.#announced("replace", key, value, function* (): Change {
      yield store(link, chunk(to));
      // The free list of the page begins where the link to the next item was.
      yield store(item + CHUNK.NEXT, NONE);
      yield store(item + CHUNK.KEY, 0);
    });
  }

  /** Deletes, evicts or expires. */
  *remove(key: Key): Change {
    const item = this.#find(key);
    const link = this.#linkTo(item, key);
    const next = this.#words[item + CHUNK.NEXT]!;
    yield* this.#announced("remove", key, "", function* (): Change {
      yield store(link, next);
      yield store(item + CHUNK.NEXT, NONE);
      yield store(item + CHUNK.KEY, 0);
    });
  }

  /** Stores a new item in a chunk that is free. Readers of its bucket can reach it when it is linked. */
  *insert(key: Key, value: Value, to: number): Change {
    const head = AT.HEAD + this.#bucketOf(key);
    const first = this.#words[head]!;
    for (const word of fill(chunk(to), key, first, value, ++this.#id)) yield word;
    yield* this.#announced("insert", key, value, function* (): Change {
      yield store(head, chunk(to));
    });
  }

  /** Moves an item to another chunk, because its page gets another use. */
  *move(key: Key, to: number): Change {
    const item = this.#find(key);
    const link = this.#linkTo(item, key);
    const copied = this.#words.slice(item, item + CHUNK.WORDS);
    for (const [index, word] of copied.entries()) yield store(chunk(to) + index, word);
    yield* this.#announced("move", key, undefined, function* (): Change {
      yield store(link, chunk(to));
      yield store(item + CHUNK.KEY, 0);
    });
  }

  /** Memory that is free gets another use: nobody announces what is written there. */
  *reuse(index: number): Change {
    for (let word = 0; word < CHUNK.WORDS; word++) yield store(chunk(index) + word, GARBAGE);
  }

  /** Adds a bucket, and moves the items of it there. */
  *split(): Change {
    const words = this.#words;
    const buckets = words[AT.BUCKETS]!;
    const level = words[AT.LEVEL]!;
    const from = buckets - level;
    const items: number[] = [];
    for (let item = words[AT.HEAD + from]!; item !== NONE; item = words[item + CHUNK.NEXT]!) {
      items.push(item);
    }
    const isMoving = (item: number): boolean =>
      (words[item + CHUNK.KEY]! & (2 * level - 1)) === buckets;
    yield* this.#announced("split", from as Key, undefined, function* (): Change {
      const heads = [NONE, NONE];
      for (const item of items) {
        const half = isMoving(item) ? 1 : 0;
        yield store(item + CHUNK.NEXT, heads[half]!);
        heads[half] = item;
      }
      yield store(AT.HEAD + from, heads[0]!);
      yield store(AT.HEAD + buckets, heads[1]!);
      yield store(AT.BUCKETS, buckets + 1);
      if (buckets + 1 === 2 * level) yield store(AT.LEVEL, buckets + 1);
    });
  }

  /** Hides every item: one word, which readers compare with the items' ids. */
  *flush(): Change {
    for (const key of [Key.A, Key.B]) yield { begins: [key, ""], text: "a flush begins" };
    yield store(AT.FLUSH, this.#id + 1);
    for (const key of [Key.A, Key.B]) yield { ends: [key, ""], text: "the flush is done" };
  }

  /** Surrounds a change with what makes it known to readers. @param value Undefined: the value stays. */
  *#announced(
    name: string,
    key: Key,
    value: Value | undefined,
    change: () => Change,
  ): Change {
    const { forgets, isLate, byBucket } = this.#how;
    if (value !== undefined) yield { begins: [key, value], text: `${name} begins` } satisfies Note;
    const version = AT.VERSION + (byBucket === true ? this.#bucketOf(key) : key & 1);
    const isForgotten = forgets === name;
    if (isLate === true) yield* change();
    if (!isForgotten) yield store(version, this.#words[version]! + 1);
    if (isLate !== true) yield* change();
    if (!isForgotten) yield store(version, this.#words[version]! + 1);
    if (value !== undefined) yield { ends: [key, value], text: `${name} is answered` };
  }

  #bucketOf(key: Key): number {
    const level = this.#words[AT.LEVEL]!;
    const bucket = key & (2 * level - 1);
    return bucket < this.#words[AT.BUCKETS]! ? bucket : bucket & (level - 1);
  }

  #find(key: Key): number {
    const link = this.#linkWhere((item) => this.#words[item + CHUNK.KEY] === key, key);
    return this.#words[link]!;
  }

  /** The place of the reference to an item. */
  #linkTo(item: number, key: Key): number {
    return this.#linkWhere((other) => other === item, key);
  }

  #linkWhere(isIt: (item: number) => boolean, key: Key): number {
    let link = AT.HEAD + this.#bucketOf(key);
    while (!isIt(this.#words[link]!)) link = this.#words[link]! + CHUNK.NEXT;
    return link;
  }
}

function store(at: number, word: number): Store {
  return { at, word };
}
