import type { TlsSettings } from "../../protocol/settings.ts";
import type { TlsMode } from "../net/transport.ts";
import type { IgnoredOption, ServerArguments } from "./argv.ts";

/** OpenSSL's bits for `--ssl-verify-mode` 0 to 3; `stats settings` shows the bits. */
const VERIFY_MODES = [0, 1, 3, 7] as const;

/**
 * Returns the options of TLS, or null without `-Z`.
 *
 * @param errors Receives a message when there is no certificate.
 */
export function toTlsSettings(
  { values }: ServerArguments,
  errors: string[],
): TlsSettings | null {
  if (!values.enableSsl) return null;
  const chainCert = values.sslChainCert;
  if (chainCert === "") {
    errors.push(
      "-Z (--enable-ssl): needs --ssl-chain-cert PATH, and --ssl-key PATH if the key is not in the same file",
    );
  }
  return {
    chainCert,
    key: values.sslKey || chainCert,
    keyFormat: values.sslKeyformat,
    verifyMode: VERIFY_MODES[values.sslVerifyMode]!,
    ciphers: values.sslCiphers || null,
    caCert: values.sslCaCert || null,
    writeBufferBytes: values.sslWbufSize * 1024,
    sessionCache: values.sslSessionCache,
    kernelTls: values.sslKernelTls,
    minVersion: values.sslMinVersion,
    handshakeTimeoutSec: values.sslHandshakeTimeoutSec,
  };
}

/** Returns the options of TLS that have no effect because there is no `-Z`. */
export function ignoredTlsOptions({ values, given }: ServerArguments): IgnoredOption[] {
  if (values.enableSsl) return [];
  return [...given].filter((name) => name.startsWith("ssl-"))
    .map((name) => ({ option: `--${name}`, reason: "there is no TLS without -Z (--enable-ssl)" }));
}

/** Options that only OpenSSL supports, with their defaults. */
const NATIVE_ONLY = [
  ["ssl-verify-mode", "sslVerifyMode", 0],
  ["ssl-keyformat", "sslKeyformat", 1],
  ["ssl-ciphers", "sslCiphers", ""],
  ["ssl-ca-cert", "sslCaCert", ""],
  ["ssl-session-cache", "sslSessionCache", false],
  ["ssl-kernel-tls", "sslKernelTls", false],
  ["ssl-min-version", "sslMinVersion", 2],
  ["ssl-handshake-timeout", "sslHandshakeTimeoutSec", 10],
] as const;

/**
 * Returns the options and the listeners that the portable transport does not support.
 *
 * @param modes Those of the listeners of `-l`.
 */
export function nativeOnlyTls(
  { values }: ServerArguments,
  modes: readonly (TlsMode | undefined)[],
  adminMode: TlsMode | undefined,
): string[] {
  if (!values.enableSsl) return [];
  const found = NATIVE_ONLY.filter(([, field, preset]) => values[field] !== preset)
    .map(([name]) => `--${name}`);
  if (modes.includes("mtls")) found.push("-l mtls:");
  // Without --ssl-ca-cert, which is refused too, no client certificate would be right.
  if (adminMode === "mtls") found.push("--admin mtls:");
  return found;
}
