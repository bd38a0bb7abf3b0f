/** The part of a span that this library uses. */
interface Span {
  setAttribute(name: string, value: string | boolean | string[]): unknown;
  recordException(error: Error): void;
  setStatus(status: { readonly code: number; readonly message?: string }): unknown;
  end(): void;
}

interface Context {
  setValue(key: symbol, value: unknown): Context;
}

/** The global object of `@opentelemetry/api` 1.x, once the application has set it up. */
interface Registered {
  readonly trace?: {
    getTracer(name: string): { startSpan(name: string, options: { kind: number }): Span };
  };
  readonly context?: {
    active(): Context;
    with<Result>(context: Context, fn: () => Result): Result;
  };
}

const API = Symbol.for("opentelemetry.js.api.1");
const SPAN_KEY = Symbol.for("OpenTelemetry Context Key SPAN");
const KIND_CLIENT = 2;
const STATUS_ERROR = 2;

/**
 * Runs a flow within a span, if the application has set up `@opentelemetry/api`; spans of `load` and `commit` are its
 * children. The library does not import the package, so that it has no dependency.
 *
 * @param keys The attribute `leased.keys`.
 */
export async function traced<Result>(
  name: string,
  keys: string | Iterable<string>,
  run: (span: Span | undefined) => Promise<Result>,
): Promise<Result> {
  const { trace, context } = (globalThis as { [API]?: Registered })[API] ?? {};
  if (trace === undefined) return await run(undefined);
  const span = trace.getTracer("@leased/client").startSpan(name, { kind: KIND_CLIENT });
  span.setAttribute("leased.keys", typeof keys === "string" ? [keys] : [...keys]);
  try {
    if (context === undefined) return await run(span);
    return await context.with(context.active().setValue(SPAN_KEY, span), () => run(span));
  } catch (error) {
    const cause = error instanceof Error ? error : new Error(String(error));
    span.recordException(cause);
    span.setStatus({ code: STATUS_ERROR, message: cause.message });
    throw error;
  } finally {
    span.end();
  }
}
