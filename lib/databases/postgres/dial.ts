import { connect, type Socket } from "node:net";
import type postgres from "npm:postgres@3.4.9";

/** The port without one in the URL or the environment. */
const DEFAULT_PORT = 5432;

/** The part of the driver's settings that says where the server is: one entry a host of the URL, or a Unix socket. */
interface Place {
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path: string | false;
}

type DriverSettings = postgres.Options<Record<string, postgres.PostgresType>>;

/**
 * Returns the driver's settings with which one connection is made. A server that closes connections before it answers
 * is dialled once more; the driver would do so without a pause and without an end.
 *
 * @param check Called before each dial. @throws Why there is to be none.
 */
export function dialSettings(url: string, check: () => void = () => {}): DriverSettings {
  let dials = 0;
  const socket = ({ host, port, path }: Place): Socket => {
    check();
    if (dials > host.length) {
      throw new Error("the database closed the connection before it answered");
    }
    const index = dials++ % host.length;
    if (path !== false) return connect(path);
    // The driver checks a certificate against the name that it finds here.
    return Object.assign(connect(port[index]!, host[index]!), { host: host[index] });
  };
  // The driver's types know neither `socket` nor lists of hosts.
  return { ...hostSettings(url), socket } as unknown as DriverSettings;
}

/**
 * Returns the driver's settings for a URL whose host is an IPv6 address, of which the driver would take what stands
 * before the first colon; none for another host.
 */
export function hostSettings(url: string): { host?: string[]; port?: number[] } {
  const { hostname, port } = new URL(url);
  if (!hostname.startsWith("[")) return {};
  const named = port === "" ? Deno.env.get("PGPORT") : port;
  return { host: [hostname.slice(1, -1)], port: [Number(named) || DEFAULT_PORT] };
}
