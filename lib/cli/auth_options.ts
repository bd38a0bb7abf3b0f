import type { WireProtocol } from "../../protocol/settings.ts";
import { type Listen, type ListenProtocol, listenText } from "../net/transport.ts";
import type { ServerArguments } from "./argv.ts";
import { isPublic } from "./listen.ts";

const OF_PROTOCOL: Readonly<Record<ListenProtocol, string>> = {
  auto: "both protocols",
  ascii: "the text protocol",
  binary: "the binary protocol",
  counters: "the counter protocol",
};

/**
 * Returns the protocol of listeners that name none. As in memcached, -Y speaks the text protocol and -S the binary one.
 *
 * @param errors Receives a message for every contradiction.
 */
export function protocolOf({ values, given }: ServerArguments, errors: string[]): WireProtocol {
  const protocol = values.protocol;
  if (values.enableSasl) {
    if (values.authFile === "") {
      errors.push("-S (--enable-sasl): needs -Y (--auth-file), the file of the users");
    }
    if (!given.has("protocol")) return "binary";
    if (protocol === "ascii") {
      errors.push("-S (--enable-sasl) and -B (--protocol) ascii: SASL is of the binary protocol");
    }
  } else if (values.authFile !== "") {
    if (!given.has("protocol")) return "ascii";
    if (protocol !== "ascii") errors.push(needsSasl(`-B (--protocol) ${protocol}`, protocol));
  }
  return protocol;
}

/** Checks that authentication protects the listeners that the options protect. */
export function checkAuthentication(
  { values }: ServerArguments,
  listens: readonly Listen[],
  counterListens: readonly Listen[],
  adminListen: Listen | null,
  errors: string[],
): void {
  const isOn = values.authFile !== "";
  if (isOn && listens.some(({ kind }) => kind === "udp")) {
    errors.push("-U (--udp-port): UDP has no authentication; leave out -U, or -Y (--auth-file)");
  }
  if (isOn && !values.enableSasl) {
    for (const listen of listens) {
      if (listen.kind === "udp" || listen.protocol === "ascii") continue;
      if (listen.protocol === values.protocol) continue;
      errors.push(needsSasl(`-l (--listen) ${listenText(listen)}`, listen.protocol));
    }
  }
  if (!values.requireAuth) return;
  if (!isOn) refusePublic(listens, "add -Y (--auth-file)", errors);
  refusePublic(counterListens, "counters have no authentication: leave --counter-port out", errors);
  const adminListens = adminListen === null ? [] : [adminListen];
  refusePublic(adminListens, "metrics have no authentication: leave --admin out", errors);
}

function needsSasl(option: string, protocol: ListenProtocol): string {
  return `-Y (--auth-file) and ${option}: add -S (--enable-sasl) for ${
    OF_PROTOCOL[protocol]
  }, or leave ${option.slice(0, 2)} out`;
}

function refusePublic(listens: readonly Listen[], remedy: string, errors: string[]): void {
  for (const listen of listens.filter(isPublic)) {
    errors.push(
      `--require-auth: other hosts can reach ${
        listenText(listen)
      }, and need no password; ${remedy}, ` +
        `or listen on 127.0.0.1`,
    );
  }
}
