import { Client } from "../client.ts";
import type { ClientOptions } from "../command_options.ts";
import { type Duration, expiryOf, TTL_SEC_MAX } from "../durations.ts";
import { textCodec } from "../values/codecs.ts";

/** What express-session knows of a session. */
interface SessionData {
  readonly cookie: { readonly expires?: Date | string | boolean | null | undefined };
}

/** Called with an error, or with a result. */
type Callback<Result = void> = (error?: unknown, result?: Result) => void;

/** Options of the store: `prefix` is "sess:" by default, and `ttlSec` is of sessions whose cookie names no time. */
export type SessionStoreOptions = Omit<ClientOptions<string>, "codec">;

/** The methods of a store that express-session calls. */
export interface SessionStore {
  /** @param callback Gets undefined if there is no such session. */
  get(id: string, callback: Callback<SessionData>): void;
  set(id: string, session: SessionData, callback?: Callback): void;
  /** Sets a session's time to live. */
  touch(id: string, session: SessionData, callback?: Callback): void;
  destroy(id: string, callback?: Callback): void;
  /** Ends all connections. */
  close(): Promise<void>;
}

const TTL_DEFAULT = "1d";

/**
 * A store for express-session: `session({ store: sessionStore(session, "127.0.0.1:11211"), secret })`. Sessions last as
 * long as their cookies. Sessions cannot be listed.
 *
 * @param session What `express-session` exports.
 * @param servers As a client has them.
 * @example
 * ```ts
 * const store = sessionStore({ Store: class {} }, "127.0.0.1:11211", { prefix: "shop:" });
 * store.get("none", (error, found) => {}); // undefined
 * await store.close();
 * ```
 */
export function sessionStore<Base extends object>(
  session: { readonly Store: abstract new () => Base },
  servers: string | readonly string[],
  options: SessionStoreOptions = {},
): Base & SessionStore {
  const { ttlSec = TTL_DEFAULT, prefix = "sess:", ...others } = options;
  expiryOf(ttlSec);
  const client = new Client<string>(servers, { ...others, prefix, codec: textCodec });
  const answer = <Result>(promise: Promise<Result>, callback: Callback<Result> = () => {}): void =>
    void promise.then((result) => callback(undefined, result), (error) => callback(error));
  const destroy = async (id: string): Promise<void> => void await client.delete(id);
  const methods: SessionStore = {
    get: (id, callback) =>
      answer(
        client.get(id).then((text) => text === undefined ? undefined : JSON.parse(text)),
        callback,
      ),
    set: (id, data, callback) =>
      answer(
        (async () => {
          const leftSec = leftOf(data, ttlSec);
          if (leftSec === null) return await destroy(id);
          if (await client.set(id, JSON.stringify(data), { ttlSec: leftSec })) return;
          throw new Error(`session ${id}: the server refuses to store it`);
        })(),
        callback,
      ),
    touch: (id, data, callback) =>
      answer(
        (async () => {
          const leftSec = leftOf(data, ttlSec);
          if (leftSec === null) await destroy(id);
          else await client.touch(id, leftSec);
        })(),
        callback,
      ),
    destroy: (id, callback) => answer(destroy(id), callback),
    close: () => client.close(),
  };
  const Store = session.Store as new () => Base;
  return Object.assign(new Store(), methods);
}

/** Returns a session's time to live; null: it is over. */
function leftOf({ cookie }: SessionData, ttlSec: Duration): Duration | null {
  const { expires } = cookie;
  if (typeof expires !== "string" && !(expires instanceof Date)) return ttlSec;
  const leftSec = Math.ceil((new Date(expires).getTime() - Date.now()) / 1000);
  if (Number.isNaN(leftSec)) return ttlSec;
  return leftSec <= 0 ? null : Math.min(leftSec, TTL_SEC_MAX);
}
