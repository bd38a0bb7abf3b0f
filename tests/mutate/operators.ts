import { parse } from "npm:@babel/parser@7.29.14";

/** One small change of a source text. */
export interface Mutant {
  /** From the repository's root. */
  readonly file: string;
  /** 1-based line of the change. */
  readonly line: number;
  /** The change replaces the text's characters [start, end). */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  readonly operator: Operator;
}

/** The change of a mutant. */
export type Operator =
  | "condition negated"
  | "comparison off by one"
  | "constant changed"
  | "statement dropped"
  | "early return"
  | "arguments swapped"
  | "boolean flipped";

/** A node of the syntax tree: ESTree's names, with offsets into the text. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly loc: { readonly start: { readonly line: number } };
  readonly [field: string]: unknown;
}

type Change = Pick<Mutant, "start" | "end" | "replacement" | "operator">;

const OFF_BY_ONE: Readonly<Record<string, string>> = { "<": "<=", "<=": "<", ">": ">=", ">=": ">" };

/** Types of functions that may return nothing, so that `return;` has the right type. */
const MAY_RETURN_NOTHING =
  /^: (?:Promise<)?(?:[\w.]+ \| )*(?:void|undefined)>?$|^: (?:Async)?Generator</;

/** Calls whose arguments may change places, and calls that only state what is true. */
const COMMUTATIVE = /^Math\.(?:min|max|imul|hypot)$/;
const ASSERTION = /^assert\w*\(/;

/** Returns every mutant of a source file, in the order of the text. */
export function mutantsOf(file: string, text: string): Mutant[] {
  const tree = parse(text, {
    sourceType: "module",
    plugins: ["typescript", "explicitResourceManagement"],
  });
  const mutants: Mutant[] = [];
  visit(tree.program as unknown as Node, (node) => {
    for (const change of changesOf(node, text)) {
      mutants.push({ file, line: node.loc.start.line, ...change });
    }
  });
  return mutants.sort((a, b) => a.start - b.start || a.end - b.end);
}

/** Returns the text with a mutant in it. */
export function applied({ start, end, replacement }: Mutant, text: string): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

/** Returns the change as the lines of a diff. */
export function diffOf(mutant: Mutant, text: string): string {
  const from = text.lastIndexOf("\n", mutant.start - 1) + 1;
  const newline = text.indexOf("\n", mutant.end);
  const to = newline < 0 ? text.length : newline;
  const before = text.slice(from, to);
  const after = applied(mutant, text).slice(
    from,
    to + mutant.replacement.length - mutant.end + mutant.start,
  );
  const lines = (sign: string, part: string): string =>
    part.split("\n").map((line) => `    ${sign} ${line}`).join("\n");
  return `${lines("-", before)}\n${lines("+", after)}`;
}

/** Calls `enter` with every node that exists at run time. */
function visit(node: Node, enter: (node: Node) => void): void {
  enter(node);
  for (const [field, value] of Object.entries(node)) {
    if (field === "loc" || field === "typeAnnotation" || field === "typeParameters") continue;
    // Keys are names, also when they are numbers.
    if (field === "key" && node["computed"] !== true) continue;
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child) && (!child.type.startsWith("TS") || "expression" in child)) {
        visit(child, enter);
      }
    }
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

function* changesOf(node: Node, text: string): Generator<Change> {
  const replace = (operator: Operator, replacement: string, at: Node = node): Change => ({
    start: at.start,
    end: at.end,
    replacement,
    operator,
  });
  const source = (part: Node): string => text.slice(part.start, part.end);
  switch (node.type) {
    case "IfStatement":
    case "WhileStatement":
    case "DoWhileStatement":
    case "ForStatement":
    case "ConditionalExpression": {
      const test = node["test"] as Node | null;
      if (test !== null) yield replace("condition negated", `!(${source(test)})`, test);
      break;
    }
    case "BinaryExpression": {
      const left = node["left"] as Node;
      const right = node["right"] as Node;
      const other = OFF_BY_ONE[node["operator"] as string];
      if (other === undefined) break;
      yield replace("comparison off by one", `${source(left)} ${other} ${source(right)}`);
      break;
    }
    case "NumericLiteral": {
      const value = node["value"] as number;
      // Limits that may as well be a little larger would hide those that matter; comparisons off by one
      // test the others.
      yield replace("constant changed", String(value > 1 ? 0 : value + 1));
      break;
    }
    case "BooleanLiteral":
      yield replace("boolean flipped", String(!node["value"]));
      break;
    case "ExpressionStatement":
      if (!ASSERTION.test(source(node)) && !source(node).startsWith("super(")) {
        yield replace("statement dropped", ";");
      }
      break;
    case "CallExpression":
    case "NewExpression": {
      const [first, second] = node["arguments"] as Node[];
      if (first === undefined || second === undefined) break;
      if (COMMUTATIVE.test(source(node["callee"] as Node)) || source(first) === source(second)) {
        break;
      }
      if (first.type === "SpreadElement" || second.type === "SpreadElement") break;
      yield {
        start: first.start,
        end: second.end,
        replacement: source(second) + text.slice(first.end, second.start) + source(first),
        operator: "arguments swapped",
      };
      break;
    }
    case "FunctionDeclaration":
    case "ClassMethod":
    case "ClassPrivateMethod":
    case "ObjectMethod":
    case "ArrowFunctionExpression": {
      const body = node["body"] as Node;
      if (body.type !== "BlockStatement" || node["kind"] === "constructor") break;
      if ((body["body"] as Node[]).length === 0) break;
      const type = node["returnType"] as Node | undefined;
      const returnsNothing = type === undefined
        ? !/\breturn [^;]/.test(source(body))
        : MAY_RETURN_NOTHING.test(source(type));
      if (!returnsNothing) break;
      yield {
        start: body.start,
        end: body.start + 1,
        replacement: "{ return;",
        operator: "early return",
      };
    }
  }
}
