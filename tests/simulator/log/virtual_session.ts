import postgres from "npm:postgres@3.4.9";
import { LostError } from "../../../lib/databases/postgres/lost_error.ts";
import {
  type LogPlace,
  type LogReceiver,
  type LogServer,
  ReplicationConnection,
} from "../../../lib/databases/postgres/replication.ts";
import {
  type Parameter,
  type ResultRow,
  Session,
  type SessionSettings,
} from "../../../lib/databases/postgres/session.ts";
import { reasonOf } from "../../../lib/process/reason.ts";
import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import type { Answer, Statement } from "../database.ts";
import { nameOf } from "./statements.ts";

const BUFFER_BYTES = 4096;

/** What the server sends over a connection that reads the log: a message of the plugin, or its position. */
export type LogLine = { readonly message: string } | { readonly position: number };

/** A connection to the model: each side sends lines of JSON. */
class LineConnection {
  readonly #connection: Deno.Conn;
  #isClosed = false;

  private constructor(connection: Deno.Conn) {
    this.#connection = connection;
  }

  /** @throws When there is no connection within the time. */
  static async open(url: string, timeoutMs: number): Promise<LineConnection> {
    const { hostname, port } = new URL(url);
    const giveUp = new AbortController();
    const timer = setTimeout(
      () => giveUp.abort(new Error(`no connection within ${timeoutMs} ms`)),
      timeoutMs,
    );
    try {
      const { signal } = giveUp;
      return new LineConnection(await Deno.connect({ hostname, port: Number(port), signal }));
    } finally {
      clearTimeout(timer);
    }
  }

  send(statement: Statement): void {
    if (this.#isClosed) return;
    // What follows a connection that breaks is told by `read`.
    this.#connection.write(latin1Bytes(`${JSON.stringify(statement)}\n`)).catch(() => {});
  }

  /** Reads lines until the connection ends. @returns Why. */
  async read(take: (line: string) => void): Promise<string> {
    const buffer = new Uint8Array(BUFFER_BYTES);
    let text = "";
    try {
      for (;;) {
        const length = await this.#connection.read(buffer);
        if (length === null) return "the server has closed the connection";
        const lines = `${text}${latin1Text(buffer, 0, length)}`.split("\n");
        text = lines.pop()!;
        for (const line of lines) {
          if (this.#isClosed) return "closed";
          take(line);
        }
      }
    } catch (error) {
      return reasonOf(error);
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connection.close();
  }
}

/** Returns the server's error, as the driver has it. */
function errorOf({ message, code }: NonNullable<Answer["error"]>): Error {
  const Refusal = postgres.PostgresError as unknown as new (fields: object) => Error;
  return new Refusal({ message, code, severity: "ERROR" });
}

/** Takes the place of `Session`: one statement after the other, and none after the connection was lost. */
class VirtualSession {
  isLost = false;
  readonly #connection: LineConnection;
  readonly #waiting: PromiseWithResolvers<readonly ResultRow[]>[] = [];
  #lostReason = "the connection to the database was lost";

  private constructor(connection: LineConnection) {
    this.#connection = connection;
    void connection.read((line) => this.#take(JSON.parse(line))).then((why) => this.abandon(why));
  }

  static async open({ url, timeoutMs }: SessionSettings): Promise<VirtualSession> {
    let connection: LineConnection;
    try {
      connection = await LineConnection.open(url, timeoutMs);
    } catch (error) {
      throw new LostError(reasonOf(error));
    }
    const session = new VirtualSession(connection);
    const late = `the database did not take a connection within ${timeoutMs} ms`;
    const timer = setTimeout(() => session.abandon(late), timeoutMs);
    try {
      await session.query("SELECT current_setting('server_version_num')::int AS version");
      return session;
    } finally {
      clearTimeout(timer);
    }
  }

  query(text: string, parameters: readonly Parameter[] = []): Promise<readonly ResultRow[]> {
    if (this.isLost) return Promise.reject(new LostError(this.#lostReason));
    const answer = Promise.withResolvers<readonly ResultRow[]>();
    this.#waiting.push(answer);
    const texts = parameters.map((parameter) => String(parameter));
    this.#connection.send({ kind: "log", name: nameOf(text), parameters: texts });
    return answer.promise;
  }

  #take({ error, result }: Answer): void {
    const answer = this.#waiting.shift();
    if (error === undefined) answer?.resolve(result!);
    else answer?.reject(errorOf(error));
  }

  abandon(reason: string): void {
    if (this.isLost) return;
    this.#lostReason = reason;
    this.isLost = true;
    this.#connection.close();
    for (const each of this.#waiting.splice(0)) each.reject(new LostError(reason));
  }

  close(): Promise<void> {
    this.abandon("the session was closed");
    return Promise.resolve();
  }
}

/** Takes the place of `ReplicationConnection`, for permanent slots. */
class VirtualReplication {
  readonly #connection: LineConnection;

  private constructor(connection: LineConnection) {
    this.#connection = connection;
  }

  static async open(
    { url, timeoutMs, slot }: LogPlace & LogServer,
    receiver: LogReceiver,
  ): Promise<VirtualReplication> {
    const connection = await LineConnection.open(url, timeoutMs);
    const started = Promise.withResolvers<void>();
    let isStarted = false;
    const take = (line: string): void => {
      if (isStarted) return tell(JSON.parse(line), receiver);
      const { error }: Answer = JSON.parse(line);
      isStarted = true;
      if (error === undefined) started.resolve();
      else started.reject(errorOf(error));
    };
    void connection.read(take).then((reason) => {
      started.reject(new Error(reason));
      if (isStarted) receiver.ended(reason);
    });
    connection.send({ kind: "replicate", slot });
    try {
      await started.promise;
    } catch (error) {
      connection.close();
      throw error;
    }
    return new VirtualReplication(connection);
  }

  report(position: bigint, asks: boolean): void {
    this.#connection.send({ kind: "status", position: Number(position), asks });
  }

  /** So few keys wait in a run that the stream never pauses. */
  pause(): void {}
  resume(): void {}

  close(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }
}

function tell(line: LogLine, receiver: LogReceiver): void {
  if ("message" in line) receiver.message(Uint8Array.fromHex(line.message));
  else receiver.sentUpTo(BigInt(line.position));
}

/** What takes the place of functions with which the backend of PostgreSQL connects. */
export const VIRTUAL_CONNECTIONS: readonly (readonly [object: object, open: unknown])[] = [
  [Session, VirtualSession.open],
  [ReplicationConnection, VirtualReplication.open],
];
