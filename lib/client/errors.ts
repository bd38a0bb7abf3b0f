/** The server, command and key of a failed request; "": there is none. */
export interface Place {
  /** `host:port`, or the path of a Unix socket. */
  readonly server: string;
  /** The command's name, as `mg`. */
  readonly command: string;
  readonly key: string;
}

function placed({ server, command, key }: Place, message: string): string {
  const what = [command, key].filter((word) => word !== "").join(" ");
  return [server, what, message].filter((part) => part !== "").join(": ");
}

/**
 * A request failed. Its message names server, command and key.
 *
 * @example
 * ```ts
 * const error = await new Client("127.0.0.1:1").get("k").catch((error) => error);
 * error instanceof RequestError; // true
 * [error.server, error.command, error.key]; // ["127.0.0.1:1", "mg", "k"]
 * ```
 */
export class RequestError extends Error implements Place {
  override readonly name: string = "RequestError";
  readonly server: string;
  readonly command: string;
  readonly key: string;

  constructor(place: Place, message: string, options?: ErrorOptions) {
    super(placed(place, message), options);
    ({ server: this.server, command: this.command, key: this.key } = place);
  }
}

/**
 * The server refused a request; `reply` is the server's reply.
 *
 * @example
 * ```ts
 * await cache.set("name", "Anna"); // true
 * await cache.increment("name"); // throws ServerError
 * ```
 */
export class ServerError extends RequestError {
  override readonly name: string = "ServerError";
  readonly reply: string;

  constructor(
    place: Place,
    reply: string,
    message: string = `the server answers ${JSON.stringify(reply)}`,
  ) {
    super(place, message);
    this.reply = reply;
  }
}

/**
 * The server does not know the command: only `leased` has locks, `getss`, update tokens and rows. Or it has no
 * `--state-dir` for update tokens. Or the binary protocol, which login by SASL PLAIN needs, lacks the command; `reply`
 * is then "".
 *
 * @example
 * ```ts
 * const other = createServer((socket) => socket.on("data", () => socket.write(`ERROR\r\n`)));
 * await once(other.listen(0, "127.0.0.1"), "listening");
 * const { port } = other.address() as AddressInfo;
 * await using client = new Client(`127.0.0.1:${port}`);
 * await client.lock("k"); // throws UnsupportedError
 * other.close();
 * ```
 */
export class UnsupportedError extends ServerError {
  override readonly name = "UnsupportedError";
}

/**
 * The connection could not be made, or ended before the reply, for a reason that the message tells. The server may have
 * executed the request.
 *
 * @example
 * ```ts
 * await new Client("127.0.0.1:1").get("k"); // throws ConnectionError
 * ```
 */
export class ConnectionError extends RequestError {
  override readonly name: string = "ConnectionError";
}

/**
 * No reply within the time-out, in ms. The server may have executed the request; its connection is closed.
 *
 * @example
 * ```ts
 * const silent = createServer().listen(0, "127.0.0.1");
 * await once(silent, "listening");
 * const { port } = silent.address() as AddressInfo;
 * await new Client(`127.0.0.1:${port}`, { replyMs: 50 }).get("k"); // throws TimeoutError
 * silent.close();
 * ```
 */
export class TimeoutError extends ConnectionError {
  override readonly name = "TimeoutError";
}

/**
 * In the place of the reply to this request the server sent bytes that are none: they have no form of the protocol, the
 * form of a reply to another command, or the number of another request. The server may have executed the request. The
 * connection is closed; other requests on it fail with ConnectionError.
 *
 * @example
 * ```ts
 * const web = createServer((socket) => void socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
 * await once(web.listen(0, "127.0.0.1"), "listening");
 * const { port } = web.address() as AddressInfo;
 * await new Client(`127.0.0.1:${port}`).get("k"); // throws ProtocolError
 * web.close();
 * ```
 */
export class ProtocolError extends ConnectionError {
  override readonly name = "ProtocolError";
}

/**
 * Some requests of a call for many keys failed, and others did not: `errors` has the reasons, in the order of `keys`.
 *
 * @example
 * ```ts
 * const ring = new Client(["127.0.0.1:11211", "127.0.0.1:1"]);
 * const error = await ring.stats().catch((error) => error);
 * error instanceof PartialError; // true
 * [error.keys, error.result.size]; // [["127.0.0.1:1"], 1]
 * ```
 */
export class PartialError extends AggregateError {
  override readonly name = "PartialError";
  /** Keys without an answer; of `stats`, names of servers. */
  readonly keys: readonly string[];
  /** What the call would have returned for the others. */
  readonly result: unknown;

  constructor(keys: readonly string[], errors: readonly unknown[], result: unknown) {
    const [first] = errors;
    const reason = first instanceof Error ? first.message : String(first);
    super(errors, `${keys.length} requests failed: ${reason}`, { cause: first });
    this.keys = keys;
    this.result = result;
  }
}

/**
 * Another connection holds the key's lock.
 *
 * @example
 * ```ts
 * await cache.set("door", "closed"); // true
 * await using _section = await cache.lock("door");
 * await cache.lock("door"); // throws LockedError
 * ```
 */
export class LockedError extends RequestError {
  override readonly name = "LockedError";

  constructor(place: Place) {
    super(place, "another connection holds the key's lock");
  }
}

/**
 * The key has an update token of another writer, so it can have no value and no lock.
 *
 * @example
 * ```ts
 * const id = await cache.takeToken("gate", "painter");
 * await cache.lock("gate"); // throws TokenOutError
 * await cache.releaseToken("gate", id); // true
 * ```
 */
export class TokenOutError extends RequestError {
  override readonly name = "TokenOutError";
}

/**
 * A value is longer than `valueBytesMax`, as encoded. Nothing was sent.
 *
 * @example
 * ```ts
 * const small = new Client("127.0.0.1:11211", { valueBytesMax: 10 });
 * await small.set("k", "x".repeat(100)); // throws ValueTooLargeError
 * ```
 */
export class ValueTooLargeError extends RangeError {
  override readonly name = "ValueTooLargeError";
}

/**
 * `load` took longer than `hardMs`.
 *
 * @example
 * ```ts
 * await cache.getOrLoad("slow", () => new Promise(() => {}), { hardMs: 10 }); // throws LoadTimeoutError
 * ```
 */
export class LoadTimeoutError extends Error {
  override readonly name = "LoadTimeoutError";
}

/**
 * The transaction has ended, but a server did not confirm the step behind it, for `keys`. The message says what that
 * means for readers.
 *
 * @example
 * ```ts
 * const away = new Cache("127.0.0.1:1");
 * const error = await away.put("k", () => {}, { limitMs: 10 }).catch((error) => error);
 * error instanceof UnfinishedError; // true
 * await error.retry(); // throws UnfinishedError
 * ```
 */
export class UnfinishedError extends Error {
  override readonly name = "UnfinishedError";
  readonly keys: readonly string[];
  /** Does the step again. @throws UnfinishedError */
  readonly retry: () => Promise<void>;
  /** What `commit` has returned; undefined after its error, which is `cause`. */
  readonly result: unknown;

  constructor(
    message: string,
    keys: readonly string[],
    retry: () => Promise<void>,
    cause: unknown,
    result?: unknown,
  ) {
    super(`${message}: ${keys.join(" ")}`, { cause });
    this.keys = keys;
    this.retry = retry;
    this.result = result;
  }
}

/**
 * Nothing was written by `putRow`, and nothing will be. `cause` is the reason.
 *
 * @example
 * ```ts
 * await cache.putRow("no-row", 1); // throws RowWriteError
 * ```
 */
export class RowWriteError extends Error {
  override readonly name = "RowWriteError";
  readonly key: string;

  constructor(key: string, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(`the row ${key} was not written: ${reason}`, { cause });
    this.key = key;
  }
}

/** The outcome of a commit: the transaction is committed, or will never be. "told": the application knows. */
export type CommitOutcome = "done" | "failed" | "told";

/**
 * `put` does not know whether the transaction was committed. Its keys stay uncacheable, so no reader gets an old value.
 * After `put`, find out from the database, then call `resolve`. After `putRow`, `resolve` finds out.
 *
 * @example
 * ```ts
 * const lose = () => Promise.reject(new Error("the connection to the database is lost"));
 * const error = await cache.put("sum", lose, { form: "tokens" }).catch((error) => error);
 * error instanceof OutcomeUnknownError; // true
 * await error.resolve(); // "told"
 * ```
 */
export class OutcomeUnknownError extends Error {
  override readonly name = "OutcomeUnknownError";
  readonly keys: readonly string[];
  /**
   * Ends the update tokens. After `put` the result is "told"; after `putRow` it says what became of the write.
   *
   * @throws UnfinishedError, OutcomeUnknownError: the servers do not answer yet; call it again.
   */
  readonly resolve: () => Promise<CommitOutcome>;

  constructor(
    keys: readonly string[],
    resolve: () => Promise<CommitOutcome>,
    cause: unknown,
  ) {
    super(`the outcome of the commit is unknown: ${keys.join(" ")}`, { cause });
    this.keys = keys;
    this.resolve = resolve;
  }
}

/**
 * Throw it from `commit` to say that the transaction was certainly not committed.
 *
 * @example
 * ```ts
 * const commit = () => {
 *   throw new RolledBackError("there are not enough seats");
 * };
 * await cache.put("seats:1", commit, { form: "tokens" }); // throws RolledBackError
 * ```
 */
export class RolledBackError extends Error {
  override readonly name = "RolledBackError";
}
