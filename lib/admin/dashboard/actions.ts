import type { Settings } from "../../../protocol/settings.ts";
import type { TokenDrop } from "../../../protocol/thread_context.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { percentDecoded } from "../../../store/base/key_text.ts";
import { highHalf, lowHalf } from "../../../store/base/u64.ts";
import type { Cache, TokenView } from "../../../store/cache.ts";
import { KEY_LENGTH_MAX } from "../../../store/limits.ts";
import { Operation } from "../../../store/operation.ts";
import type { AdminRequest, Reply } from "../http_server.ts";

/** The header in which the page sends its secret. Only pages of this server can read it. */
const SECRET_HEADER = "x-leased-secret";

/** The parts of the server that actions change. */
export interface ActionsOptions {
  readonly cache: Cache;
  readonly settings: Settings;
  /** False: the process ends, and may be writing its snapshot. */
  readonly isServing: () => boolean;
  /** Logs what was done. */
  readonly done: (event: string, message: string, by: string) => void;
  readonly tokensDropped: (drop: TokenDrop) => void;
}

/** An action's end: a text for the user, and the status of the reply. */
interface End {
  readonly status: number;
  readonly message: string;
}

interface Action {
  /** Why this server refuses it; null: it does not. */
  readonly refusal: (options: ActionsOptions) => string | null;
  /** @param by The user, for the log. */
  readonly act: (options: ActionsOptions, body: unknown, by: string) => End;
}

const flushRefusal = ({ settings }: ActionsOptions): string | null =>
  settings.disableFlushAll ? "the server runs with -F (--disable-flush-all)" : null;

/** The actions, by the last part of their path. */
const ACTIONS: Readonly<Record<string, Action>> = {
  flush: { refusal: flushRefusal, act: flush },
  "quarantine-on": { refusal: flushRefusal, act: quarantineOn },
  "quarantine-off": {
    refusal: (options) =>
      flushRefusal(options) ??
        (options.cache.journal.queue.isUnusable
          ? "the journal of update tokens cannot be read; start again with --token-recover"
          : null),
    act: quarantineOff,
  },
  "drop-token": {
    refusal: ({ settings }) =>
      settings.allowTokenDrop ? null : "the server runs without --allow-token-drop",
    act: dropToken,
  },
};

/** The changes that users of the level admin may make by the dashboard. */
export class Actions {
  static readonly names: readonly string[] = Object.keys(ACTIONS);
  readonly #options: ActionsOptions;
  readonly #secret = crypto.randomUUID();

  constructor(options: ActionsOptions) {
    this.#options = options;
  }

  /** The facts that the page needs: the secret of its requests, and the actions that are refused, with the reason. */
  describe(): unknown {
    const refusals = Object.entries(ACTIONS).map(([name, { refusal }]) =>
      [name, refusal(this.#options)] as const
    );
    return { secret: this.#secret, refusals: Object.fromEntries(refusals) };
  }

  /**
   * Does an action.
   *
   * @param request Of a user who may.
   * @param user The user's name.
   */
  async act(name: string, request: AdminRequest, user: string): Promise<Reply> {
    const { headers, peer } = request;
    // The browser sends the password with requests of other sites, too. It adds their origin, and knows no secret.
    if (headers.origin === undefined || headers[SECRET_HEADER] !== this.#secret) {
      return { status: 403, body: "refused: the request is not from this server's page\n" };
    }
    const { refusal, act } = ACTIONS[name]!;
    const reason = refusal(this.#options);
    if (reason !== null) return { status: 403, body: `refused: ${reason}\n` };
    const body = await request.body();
    if (body === null) return { status: 413, body: "refused: the body is too long\n" };
    if (!this.#options.isServing()) return { status: 503, body: "refused: shutting down\n" };
    const { status, message } = act(this.#options, parsed(body), `user ${user} at ${peer}`);
    return { status, body: `${message}\n` };
  }
}

/** Returns the value of a text in JSON; undefined: it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function flush({ cache, done }: ActionsOptions, _body: unknown, by: string): End {
  cache.enter();
  cache.flushAll(0);
  cache.leave();
  done("flushed", `${by} flushed the cache`, by);
  return { status: 200, message: "the cache is flushed" };
}

function quarantineOn({ cache, done }: ActionsOptions, _body: unknown, by: string): End {
  cache.enter();
  cache.tokens.quarantine(true);
  cache.leave();
  for (let row = 1; row !== 0;) {
    cache.enter();
    row = cache.tokens.removeLocked(row);
    cache.leave();
  }
  done("quarantine_on", `${by} turned quarantine on: no key is cacheable`, by);
  return { status: 200, message: "quarantine is on: no key is cacheable" };
}

function quarantineOff({ cache, done }: ActionsOptions, _body: unknown, by: string): End {
  cache.enter();
  cache.tokens.quarantine(false);
  cache.leave();
  done("quarantine_off", `${by} turned quarantine off`, by);
  return { status: 200, message: "quarantine is off" };
}

function dropToken({ cache, tokensDropped }: ActionsOptions, body: unknown, by: string): End {
  const { key: text, id } = Object(body) as { key?: unknown; id?: unknown };
  const key = typeof text === "string" ? percentDecoded(text) : null;
  if (key === null || key.length === 0 || key.length > KEY_LENGTH_MAX || !isTokenId(id)) {
    const message = 'the body must be {"key": …, "id": …} with a key and an id of the list';
    return { status: 400, message };
  }
  const operation = Object.assign(
    new Operation(new ByteRegion(Uint8Array.from(key, (each) => each.charCodeAt(0)).buffer)),
    { keyLength: key.length, compare: true, compareLow: lowHalf(id), compareHigh: highHalf(id) },
  );
  const dropped: TokenView[] = [];
  cache.enter();
  cache.tokens.drop(operation, 1, Infinity, (token) => dropped.push(token));
  cache.leave();
  if (dropped.length === 0) return { status: 404, message: "no such update token is out" };
  tokensDropped({ token: dropped[0]!, count: 1, by });
  return { status: 200, message: "the update token is dropped; its owner may still write" };
}

function isTokenId(id: unknown): id is number {
  return Number.isSafeInteger(id) && Number(id) > 0;
}
