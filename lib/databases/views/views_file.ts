import { readRegularTextFile } from "../../process/file_kinds.ts";
import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import { reasonOf } from "../../process/reason.ts";
import { KeyTemplate } from "./key_template.ts";
import {
  RESULTS,
  type TableChanges,
  type View,
  type ViewMistake,
  Views,
  ViewsError,
} from "./view.ts";

/** Longest age of a value, in seconds: a year. */
const MAX_AGE_SEC = 365 * 24 * 3600;
/** What a query says to readers, and its texts and quoted names. */
export const COMMENT_OR_QUOTED =
  /--[^\n]*|\/\*[^]*?\*\/|[eE]'(?:[^'\\]|''|\\[^])*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$[^]*?\$\1\$/g;
const COMMENT = /^(?:--|\/\*)/;
const FIELDS = ["query", "value", "max-age", "changes"];

/**
 * Reads the file of views: JSON with comments, described in docs/views.md.
 *
 * @param rowPrefixes What the keys of rows begin with; a view's keys must be among them.
 * @throws ViewsError Names the line of each mistake.
 */
export function readViewsFile(path: string, rowPrefixes: readonly string[]): Views {
  let text: string;
  try {
    text = readRegularTextFile(path);
  } catch (error) {
    throw new Error(`${path}: ${reasonOf(error)}`);
  }
  return parseViews(text, path, rowPrefixes);
}

/** As `readViewsFile`, of its text. @throws ViewsError */
export function parseViews(text: string, path: string, rowPrefixes: readonly string[]): Views {
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  const reader = new ViewsReader(text, rowPrefixes);
  for (const { error, offset } of errors) {
    const what = printParseErrorCode(error).replaceAll(/(?<=.)[A-Z]/g, (letter) => ` ${letter}`);
    reader.addMistake(offset, `no JSON: ${what.toLowerCase()}`);
  }
  const views = errors.length > 0 ? [] : reader.views(root);
  if (reader.mistakes.length > 0) throw new ViewsError(path, reader.mistakes);
  return new Views(views, path);
}

/** Makes views of the tree of a file, and collects its mistakes. */
class ViewsReader {
  readonly mistakes: ViewMistake[] = [];
  readonly #text: string;
  readonly #rowPrefixes: readonly string[];

  constructor(text: string, rowPrefixes: readonly string[]) {
    this.#text = text;
    this.#rowPrefixes = rowPrefixes;
  }

  addMistake(offset: number, text: string): void {
    this.mistakes.push({ line: this.#lineOf(offset), text });
  }

  #lineOf(offset: number): number {
    return this.#text.slice(0, offset).split("\n").length;
  }

  views(root: Node | undefined): View[] {
    if (root?.type !== "object") {
      this.addMistake(0, 'must be an object: {"<keys>": {"query": …, "changes": …}}');
      return [];
    }
    const members = this.#members(root, "view");
    if (members.size === 0) this.addMistake(root.offset, "there is no view");
    const views = [...members].flatMap(([name, node]) => this.#view(name, node) ?? []);
    for (const [index, { name, keys, line }] of views.entries()) {
      const first = views.slice(0, index).find((before) => before.keys.match(keys.sample) !== null);
      if (first === undefined) continue;
      const text =
        `view ${name}: its keys fit ${first.name}, which stands before it: put this one first`;
      this.mistakes.push({ line, text });
    }
    return views;
  }

  #view(name: string, node: Node): View | null {
    const keys = this.#template(node.parent!, name, `view ${name}: its keys`, false);
    if (node.type !== "object") {
      this.addMistake(node.offset, `view ${name}: must be an object`);
      return null;
    }
    const label = `view ${name}`;
    const members = this.#members(node, label);
    for (const [field, { parent }] of members) {
      if (FIELDS.includes(field)) continue;
      this.addMistake(parent!.offset, `${label}: unknown field ${field}: ${FIELDS.join(", ")}`);
    }
    if (keys !== null) this.#checkKeys(keys, node, label);
    const query = this.#query(members.get("query"), node, label);
    const result = this.#result(members.get("value"), label);
    const maxAgeSec = this.#maxAge(members.get("max-age"), label);
    const changes = this.#changes(members.get("changes"), keys, node, label);
    if (keys === null || query === null) return null;
    this.#checkParameters(keys, query, node, members.get("query")!, label);
    const line = this.#lineOf(node.parent!.offset);
    return { name, keys, query, result, maxAgeSec, changes, line };
  }

  /** @param node The view. @param written Its query in the file. */
  #checkParameters(
    keys: KeyTemplate,
    query: string,
    node: Node,
    written: Node,
    label: string,
  ): void {
    const texts = (query.match(COMMENT_OR_QUOTED) ?? []).filter((part) => !COMMENT.test(part));
    const rest = query.replaceAll(COMMENT_OR_QUOTED, " ");
    for (const parameter of keys.names.map((name) => `{${name}}`)) {
      if (texts.some((text) => text.includes(parameter))) {
        const mistake = `${label}: ${parameter} stands in quotes: write it without them`;
        this.addMistake(written.offset, mistake);
      } else if (!rest.includes(parameter)) {
        this.addMistake(node.offset, `${label}: ${parameter} is not in its query`);
      }
    }
  }

  #checkKeys(keys: KeyTemplate, node: Node, label: string): void {
    const [twice] = keys.names.filter((name, index) => keys.names.indexOf(name) !== index);
    if (twice !== undefined) this.addMistake(node.offset, `${label}: {${twice}} appears twice`);
    // Prefixes of rows are UTF-8, keys a character a byte.
    const begin = new TextDecoder().decode(
      Uint8Array.from(keys.prefix, (letter) => letter.charCodeAt(0)),
    );
    if (this.#rowPrefixes.some((prefix) => begin.startsWith(prefix))) return;
    const mistake = `${label}: keys that begin with ${begin} were no rows at the start: `;
    this.addMistake(node.offset, `${mistake}start the server again`);
  }

  #query(node: Node | undefined, parent: Node, label: string): string | null {
    const lines = node?.type === "array" ? node.children! : node === undefined ? [] : [node];
    const isText = lines.length > 0 && lines.every(({ type }) => type === "string");
    const query = lines.map(({ value }) => value).join("\n").replace(/[\s;]+$/, "").trim();
    if (isText && query !== "") return query;
    this.addMistake((node ?? parent).offset, `${label}: query must be a text, or a list of lines`);
    return null;
  }

  #result(node: Node | undefined, label: string): View["result"] {
    const result = RESULTS.find((each) => each === (node?.value ?? "object"));
    if (result === undefined) {
      this.addMistake(node!.offset, `${label}: value must be one of ${RESULTS.join(", ")}`);
    }
    return result ?? "object";
  }

  #maxAge(node: Node | undefined, label: string): number {
    if (node === undefined) return 0;
    const age = node.value as unknown;
    if (Number.isInteger(age) && (age as number) >= 1 && (age as number) <= MAX_AGE_SEC) {
      return age as number;
    }
    this.addMistake(node.offset, `${label}: max-age must be whole seconds, 1 to ${MAX_AGE_SEC}`);
    return 0;
  }

  #changes(
    node: Node | undefined,
    keys: KeyTemplate | null,
    parent: Node,
    label: string,
  ): TableChanges[] {
    if (node?.type !== "object" || node.children!.length === 0) {
      const text =
        `${label}: changes must name each table of its query, as in {"<table>": "<keys>"}`;
      this.addMistake((node ?? parent).offset, text);
      return [];
    }
    return [...this.#members(node, `${label}: changes`)].map(([table, value]) => ({
      table,
      keys: this.#changedKeys(table, value, keys, label),
    }));
  }

  #changedKeys(
    table: string,
    node: Node,
    view: KeyTemplate | null,
    label: string,
  ): KeyTemplate[] {
    const nodes = node.type === "array" ? node.children! : [node];
    const name = `${label}: changes of ${table}`;
    if (nodes.length === 0) this.addMistake(node.offset, `${name}: there are no keys`);
    return nodes.flatMap((each) => {
      if (each.type !== "string") {
        this.addMistake(each.offset, `${name}: must be a text, or a list of texts`);
        return [];
      }
      const template = this.#template(each, each.value, name, true);
      if (template === null || view === null) return [];
      if (template.isPartOf(view)) return [template];
      this.addMistake(each.offset, `${name}: ${each.value} are no keys of this view`);
      return [];
    });
  }

  #template(node: Node, text: string, label: string, allowsPrefix: boolean): KeyTemplate | null {
    try {
      return KeyTemplate.parse(text, allowsPrefix);
    } catch (error) {
      this.addMistake(node.offset, `${label}: ${reasonOf(error)}`);
      return null;
    }
  }

  /** Returns the values of an object, by their names. */
  #members(node: Node, label: string): Map<string, Node> {
    const members = new Map<string, Node>();
    for (const { offset, children } of node.children!) {
      const [name, value] = children!;
      if (members.has(name!.value)) {
        this.addMistake(offset, `${label}: ${name!.value} appears twice`);
      }
      members.set(name!.value, value!);
    }
    return members;
  }
}
