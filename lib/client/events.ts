import { checkFunction, checkWord } from "./checks.ts";
import type { ConnectionError } from "./errors.ts";

/** Events of a client by their names, and what their listeners get. */
export interface ClientEvents {
  /** A server has failed: until it is up, its requests fail at once, besides one after each pause. */
  readonly down: {
    /** As `serverNameOf` returns it. */
    readonly server: string;
    /** Why its connection ended. */
    readonly error: ConnectionError;
  };
  /** A server that was down has executed a request. */
  readonly up: { readonly server: string };
  /** Update tokens of a `put` or a `putRow` stay out: nothing is cached under `keys` until they are released. */
  readonly tokensOut: {
    /** One for each token, with the prefix of the cache and names of namespaces; `tag:<name>` of a tag. */
    readonly keys: readonly string[];
    /**
     * The error that the call rejects with: OutcomeUnknownError has `resolve`, UnfinishedError has `retry`. Another one
     * tells why a token was not given, after which those taken before it could not be released.
     */
    readonly error: unknown;
  };
}

/** Gets the events of one name. Its exceptions and rejections are dropped. */
export type Listener<Name extends keyof ClientEvents> = (event: ClientEvents[Name]) => unknown;

const NAMES: Readonly<Record<keyof ClientEvents, true>> = { down: true, up: true, tokensOut: true };

/** The listeners of a client. */
export class Listeners {
  readonly #listeners = new Map<string, Set<Listener<never>>>();

  /** @throws RangeError, TypeError: there is no such event, or the listener is no function. */
  add<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): void {
    check(name, listener);
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
  }

  /** @throws RangeError, TypeError: as `add`. */
  remove<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): void {
    check(name, listener);
    this.#listeners.get(name)?.delete(listener);
  }

  /** Calls the listeners, each in a microtask: they may call the client, which is in the middle of something now. */
  emit<Name extends keyof ClientEvents>(name: Name, event: ClientEvents[Name]): void {
    const listeners = this.#listeners.get(name) as Set<Listener<Name>> | undefined;
    for (const listener of listeners ?? []) {
      queueMicrotask(() => {
        if (!listeners!.has(listener)) return;
        try {
          Promise.resolve(listener(event)).catch(() => {});
        } catch {
          // A listener that fails harms nobody.
        }
      });
    }
  }
}

function check(name: string, listener: unknown): void {
  checkWord("event", name, Object.keys(NAMES));
  checkFunction("listener", listener);
}
