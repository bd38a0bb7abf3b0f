import { path } from "../servers/server_process.ts";

/** A fenced block of a document. */
export interface Block {
  /** The first word behind the fence: `sh`, `console`, `text`, … */
  readonly language: string;
  readonly lines: readonly string[];
  /** Number of its first line in the document. */
  readonly line: number;
}

/** A document of the repository. */
export interface Document {
  /** From the repository's root, like `docs/locks.md`. */
  readonly name: string;
  readonly text: string;
  readonly blocks: readonly Block[];
  /** Without the fenced blocks. */
  readonly prose: string;
}

const INTERNALS = "docs/internals";

/** Returns README.md, CONTRIBUTING.md, CHANGELOG.md and all pages below docs/. */
export function readDocuments(): Document[] {
  const pages = ["docs", INTERNALS].flatMap((folder) =>
    [...Deno.readDirSync(path(folder))].map(({ name }) => `${folder}/${name}`)
  );
  const names = pages.filter((name) => name.endsWith(".md")).sort();
  return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ...names].map(readDocument);
}

/** Whether a document is a proof or a file format: read by those who change the source. */
export function isInternal({ name }: Document): boolean {
  return name.startsWith(`${INTERNALS}/`);
}

export function readDocument(name: string): Document {
  return parseDocument(name, Deno.readTextFileSync(path(name)));
}

/** @throws SyntaxError when a fence is not closed. */
function parseDocument(name: string, text: string): Document {
  const blocks: Block[] = [];
  const prose: string[] = [];
  let open: { language: string; lines: string[]; line: number } | undefined;
  for (const [index, line] of text.split("\n").entries()) {
    const fence = /^\s*```\s*(\w*)/.exec(line);
    if (fence === null) (open?.lines ?? prose).push(line);
    else if (open === undefined) open = { language: fence[1]!, lines: [], line: index + 2 };
    else {
      blocks.push(open);
      open = undefined;
    }
  }
  if (open !== undefined) throw new SyntaxError(`${name}:${open.line}: the block does not end`);
  return { name, text, blocks, prose: prose.join("\n") };
}

/** The anchors of a document's headings, as GitHub makes them. */
export function anchorsOf({ prose }: Document): Set<string> {
  return new Set(
    [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
      heading!.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-")
    ),
  );
}

/** The targets of a document's links. */
export function linksOf({ prose }: Document): string[] {
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
}

/** Returns the text between backticks outside of blocks. */
export function inlineCodeOf({ prose }: Document): string[] {
  return [...prose.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replaceAll(/\s*\n\s*/g, " "));
}
