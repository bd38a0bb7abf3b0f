import { latin1Text } from "../../../store/base/bytes.ts";

/** A parameter between braces. */
const PARAMETER = /\{([a-zA-Z_][a-zA-Z0-9_]*)\}/;
const ANY_REST = "*";

/**
 * The keys of a view, or those that a change concerns: text with parameters between braces, such as
 * `category:{category}:page:{page}`. Keys have a character a byte; templates are UTF-8 in them.
 */
export class KeyTemplate {
  /** Text before, between and behind the parameters: one more than there are names. */
  readonly texts: readonly string[];
  /** The parameters, in their order. */
  readonly names: readonly string[];
  /** Whether it stands for all keys that begin like this. */
  readonly isPrefix: boolean;

  private constructor(texts: readonly string[], names: readonly string[], isPrefix: boolean) {
    this.texts = texts;
    this.names = names;
    this.isPrefix = isPrefix;
  }

  /**
   * Reads a template.
   *
   * @param allowsPrefix Whether `*` at its end stands for any rest.
   * @throws Error Why it is none.
   */
  static parse(text: string, allowsPrefix = false): KeyTemplate {
    const isPrefix = allowsPrefix && text.endsWith(ANY_REST);
    const words = (isPrefix ? text.slice(0, -ANY_REST.length) : text).split(PARAMETER);
    const texts = words.filter((_, index) => index % 2 === 0);
    const names = words.filter((_, index) => index % 2 === 1);
    if (texts[0] === "") throw new Error("must begin with text that all its keys have");
    if (texts.slice(1, -1).includes("")) throw new Error("needs text between two parameters");
    const stray = texts.find((each) => /[{}]/.test(each));
    if (stray !== undefined) {
      throw new Error(`${JSON.stringify(stray)}: a parameter is a name between braces, as in {id}`);
    }
    // deno-lint-ignore no-control-regex -- keys have none of them
    const bad = texts.find((each) => /[\x00-\x20\x7f]/.test(each));
    if (bad !== undefined) {
      throw new Error(`${JSON.stringify(bad)}: a key has no spaces and no control characters`);
    }
    const encoder = new TextEncoder();
    return new KeyTemplate(texts.map((each) => latin1Text(encoder.encode(each))), names, isPrefix);
  }

  /** The common beginning of its keys. */
  get prefix(): string {
    return this.texts[0]!;
  }

  /** One of its keys. */
  get sample(): string {
    return this.texts.join("0");
  }

  /**
   * Returns the values of the parameters in a key, in their order; null: it is no such key. A parameter ends where the
   * text behind it appears first; the last one takes the rest.
   */
  match(key: string): string[] | null {
    const { texts } = this;
    if (!key.startsWith(texts[0]!)) return null;
    const values: string[] = [];
    let at = texts[0]!.length;
    for (let index = 1; index < texts.length; index++) {
      const text = texts[index]!;
      const isLast = index === texts.length - 1;
      const end = isLast ? key.length - text.length : key.indexOf(text, at);
      if (end < at || !key.startsWith(text, end)) return null;
      values.push(key.slice(at, end));
      at = end + text.length;
    }
    return at === key.length ? values : null;
  }

  /** Whether all its keys are keys of a view, with the same parameters in the same places. */
  isPartOf(view: KeyTemplate): boolean {
    const last = this.texts.length - 1;
    if (this.isPrefix ? last >= view.texts.length : last !== view.texts.length - 1) return false;
    return this.texts.every((text, index) => {
      const whole = view.texts[index]!;
      return this.isPrefix && index === last ? whole.startsWith(text) : whole === text;
    });
  }
}
