/**
 * Types of the standard library's modules as this project uses them. The npm mirror `deno-std` carries the code without
 * types; `tests/types_test.ts` checks that every name declared here exists.
 */
declare module "@std/assert" {
  export class AssertionError extends Error {}
  export function assert(expression: unknown, message?: string): asserts expression;
  export function assertEquals<T>(actual: T, expected: T, message?: string): void;
  export function assertNotEquals<T>(actual: T, expected: T, message?: string): void;
  export function assertStrictEquals<T>(actual: unknown, expected: T, message?: string): void;
  export function assertObjectMatch(
    actual: Record<PropertyKey, unknown>,
    expected: Record<PropertyKey, unknown>,
    message?: string,
  ): void;
  export function assertMatch(actual: string, expected: RegExp, message?: string): void;
  export function assertStringIncludes(actual: string, expected: string, message?: string): void;
  export function assertThrows(
    fn: () => unknown,
    // deno-lint-ignore no-explicit-any
    ErrorClass?: new (...args: any[]) => Error,
    messageIncludes?: string,
  ): Error;
  export function assertRejects(
    fn: () => PromiseLike<unknown>,
    // deno-lint-ignore no-explicit-any
    ErrorClass?: new (...args: any[]) => Error,
    messageIncludes?: string,
  ): Promise<Error>;
  export function assertExists<T>(actual: T, message?: string): asserts actual is NonNullable<T>;
  export function assertLess(actual: number, expected: number, message?: string): void;
  export function assertLessOrEqual(actual: number, expected: number, message?: string): void;
  export function assertGreater(actual: number, expected: number, message?: string): void;
  export function assertGreaterOrEqual(actual: number, expected: number, message?: string): void;
  export function fail(message?: string): never;
}

declare module "@std/cli/parse-args" {
  export interface ParseOptions {
    boolean?: string[];
    string?: string[];
    collect?: string[];
    negatable?: string[];
    alias?: Record<string, string | string[]>;
    default?: Record<string, unknown>;
    stopEarly?: boolean;
    "--"?: boolean;
    unknown?: (argument: string, key?: string, value?: unknown) => unknown;
  }
  export function parseArgs(
    args: readonly string[],
    options?: ParseOptions,
  ): Record<string, unknown> & { _: (string | number)[] };
}

declare module "@std/text/closest-string" {
  export function closestString(
    word: string,
    possibleWords: readonly string[],
    options?: { caseSensitive?: boolean },
  ): string;
}

declare module "@std/text/levenshtein-distance" {
  export function levenshteinDistance(a: string, b: string): number;
}

declare module "@std/streams" {
  export class TextLineStream extends TransformStream<string, string> {
    constructor(options?: { allowCR?: boolean });
  }
}
