import { readLoginFile } from "../auth/user_file.ts";
import { readServerAddress } from "../cli/listen.ts";
import { valueOr } from "../cli/values.ts";
import { type Address, type DialOptions, readCaCert, type UnixAddress } from "../peers/dial.ts";

/** The options of the servers to look at. */
interface ServerValues {
  readonly server: readonly string[];
  readonly login: string;
  readonly caCert: string;
  readonly timeoutMs: number;
}

/** Servers, and how to connect to them. */
export interface Targets {
  readonly addresses: readonly (Address | UnixAddress)[];
  readonly dial: DialOptions;
}

/** Reads addresses and files. Adds mistakes to `errors`. */
export function readTargets(values: ServerValues, errors: string[]): Targets {
  const { login, server, timeoutMs, caCert } = values;
  return {
    addresses: server.map((text) =>
      valueOr(
        { hostname: "", port: 0 },
        () => readTarget(text),
        errors,
        JSON.stringify(text),
      )
    ),
    dial: {
      timeoutMs,
      login: login === ""
        ? null
        : fromFile(() => readLoginFile(login), `--login ${login}`, errors) ?? null,
      caCert: fromFile(() => readCaCert(caCert), `--ca-cert ${caCert}`, errors) ?? null,
    },
  };
}

/** Reads `host:port`, or the path of a Unix socket, which has a slash. @throws RangeError */
function readTarget(text: string): Address | UnixAddress {
  if (text.includes("/")) return { path: text };
  try {
    return readServerAddress(text);
  } catch (error) {
    throw new RangeError(`${(error as Error).message}, or the path of a Unix socket, with a slash`);
  }
}

function fromFile<Value>(read: () => Value, label: string, errors: string[]): Value | undefined {
  const asRange = (): Value => {
    try {
      return read();
    } catch (error) {
      throw new RangeError((error as Error).message);
    }
  };
  return valueOr(undefined, asRange, errors, label);
}
