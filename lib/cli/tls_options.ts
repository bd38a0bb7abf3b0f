import type { TlsSettings } from "../../protocol/settings.ts";
import type { TlsMode } from "../net/transport.ts";
import type { IgnoredOption, ParsedArguments } from "./argv.ts";
import type { ExtendedValues } from "./option_table.ts";

/** OpenSSL's bits for `-o ssl_verify_mode` 0 to 3, which are also what `stats settings` shows. */
const VERIFY_MODES = [0, 1, 3, 7] as const;

/**
 * Returns the options of TLS, or null without `-Z`.
 *
 * @param errors Receives a message when there is no certificate.
 */
export function toTlsSettings(
  { values, extended }: ParsedArguments,
  errors: string[],
): TlsSettings | null {
  if (!values["enable-ssl"]) return null;
  const chainCert = extended.ssl_chain_cert;
  if (chainCert === "") {
    errors.push(
      "-Z (--enable-ssl): needs -o ssl_chain_cert=PATH, and -o ssl_key=PATH if the key is not in the same file",
    );
  }
  return {
    chainCert,
    key: extended.ssl_key || chainCert,
    keyFormat: extended.ssl_keyformat,
    verifyMode: VERIFY_MODES[extended.ssl_verify_mode]!,
    ciphers: extended.ssl_ciphers || null,
    caCert: extended.ssl_ca_cert || null,
    writeBufferBytes: extended.ssl_wbuf_size * 1024,
    sessionCache: extended.ssl_session_cache,
    kernelTls: extended.ssl_kernel_tls,
    minVersion: extended.ssl_min_version,
    handshakeTimeoutSec: extended.ssl_handshake_timeout,
  };
}

/** Returns the words of `-o` that have no effect because there is no `-Z`. */
export function ignoredTlsOptions({ values, extended, given }: ParsedArguments): IgnoredOption[] {
  if (values["enable-ssl"]) return [];
  return Object.keys(extended).filter((name) => name.startsWith("ssl_") && given.has(name))
    .map((name) => ({ option: `-o ${name}`, reason: "there is no TLS without -Z (--enable-ssl)" }));
}

/** What the runtime's own TLS cannot do, by the word of `-o`, and the value that means not to ask for it. */
const NATIVE_ONLY: readonly (readonly [name: keyof ExtendedValues, unasked: unknown])[] = [
  ["ssl_verify_mode", 0],
  ["ssl_keyformat", 1],
  ["ssl_ciphers", ""],
  ["ssl_ca_cert", ""],
  ["ssl_session_cache", false],
  ["ssl_kernel_tls", false],
  ["ssl_min_version", 2],
  ["ssl_handshake_timeout", 10],
];

/** Returns the words of `-o` that the portable transport cannot honour, and listeners that it cannot have. */
export function nativeOnlyTls(
  { values, extended }: ParsedArguments,
  modes: readonly (TlsMode | undefined)[],
): string[] {
  if (!values["enable-ssl"]) return [];
  const found = NATIVE_ONLY.filter(([name, unasked]) => extended[name] !== unasked)
    .map(([name]) => `-o ${name}`);
  if (modes.includes("mtls")) found.push("-l mtls:");
  return found;
}
