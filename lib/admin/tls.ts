import { Buffer } from "node:buffer";
import { createPrivateKey } from "node:crypto";
import type { Duplex } from "node:stream";
import { createServer, type SecureVersion, type TlsOptions, type TLSSocket } from "node:tls";
import type { TlsSettings } from "../../protocol/settings.ts";
import { readRegularFile } from "../process/file_kinds.ts";
import { TlsError, type TlsMode } from "../net/transport.ts";
import { reasonOf } from "../process/reason.ts";

/** A value of `--ssl-keyformat`. */
const DER = 2;
/** Bits of `TlsSettings.verifyMode`. */
const VERIFY_PEER = 1;
const FAIL_WITHOUT_CERTIFICATE = 2;
/** By `--ssl-min-version`. The runtime has no older version. */
const MIN_VERSIONS: readonly SecureVersion[] = ["TLSv1.2", "TLSv1.2", "TLSv1.2", "TLSv1.3"];

/** The certificates of the port that tell when they were loaded again. */
interface Certificates {
  /** Changes when `refresh_certs` or SIGHUP has loaded the files again. */
  readonly certificateGeneration: number;
}

/** TLS of the admin port, with the files and options of `-Z`. */
export class AdminTls {
  readonly #settings: TlsSettings;
  readonly #mode: TlsMode;
  readonly #certificates: Certificates;
  #generation: number;
  #options: TlsOptions;

  /** @throws TlsError when a file is wrong. */
  constructor(settings: TlsSettings, mode: TlsMode, certificates: Certificates) {
    this.#settings = settings;
    this.#mode = mode;
    this.#certificates = certificates;
    this.#generation = certificates.certificateGeneration;
    this.#options = this.#load();
  }

  /**
   * Begins a handshake. A failed one, or a client certificate that is missing or wrong, closes the connection.
   *
   * @param open Gets the plain side of the connection when the handshake is done.
   */
  accept(raw: Duplex, open: (socket: TLSSocket) => void): void {
    this.#refresh();
    // One for each connection: a shared one does not tell to which connection a socket belongs.
    const server = createServer(this.#options, (socket) => {
      if (this.#isRefused(socket)) {
        raw.destroy();
        return;
      }
      open(socket);
    });
    server.on("tlsClientError", () => raw.destroy());
    server.emit("connection", raw);
  }

  #isRefused(socket: TLSSocket): boolean {
    return this.#isForeignCipher(socket) || this.#isWrongCertificate(socket);
  }

  /** The runtime checks the names of `--ssl-ciphers`, and takes others all the same. Those of TLS 1.3 are not in it. */
  #isForeignCipher(socket: TLSSocket): boolean {
    const { ciphers } = this.#settings;
    if (ciphers === null || socket.getProtocol() === "TLSv1.3") return false;
    return !ciphers.split(/[:, ]/).includes(socket.getCipher().name);
  }

  /** With mode 1 of `--ssl-verify-mode` a certificate is optional, but must be right. */
  #isWrongCertificate(socket: TLSSocket): boolean {
    if (!this.#options.requestCert) return false;
    const certificate = socket.getPeerCertificate() ?? {};
    const isGiven = Object.keys(certificate).length > 0;
    if (!isGiven) return this.#options.rejectUnauthorized === true;
    // The runtime does not look at the time of a certificate that is an authority itself.
    const nowMs = Date.now();
    const { valid_from: from, valid_to: to } = certificate;
    if (!(Date.parse(from) <= nowMs && nowMs <= Date.parse(to))) return true;
    // Without authorities of its own, the runtime would trust those of the public.
    return this.#settings.caCert === null || !socket.authorized;
  }

  /** Loads the files again after the cache's ports have done so. Wrong files leave the previous ones in use. */
  #refresh(): void {
    const { certificateGeneration } = this.#certificates;
    if (certificateGeneration === this.#generation) return;
    this.#generation = certificateGeneration;
    try {
      this.#options = this.#load();
    } catch (error) {
      // OpenSSL has just loaded the same files, and reports what is wrong with them.
      if (!(error instanceof TlsError)) throw error;
    }
  }

  #load(): TlsOptions {
    const { chainCert, key, keyFormat, ciphers, caCert, minVersion, verifyMode } = this.#settings;
    const asks = this.#mode === "mtls" ||
      (this.#mode === "tls" && (verifyMode & VERIFY_PEER) !== 0);
    const requires = this.#mode === "mtls" || (verifyMode & FAIL_WITHOUT_CERTIFICATE) !== 0;
    const files: TlsOptions = {
      cert: read("certificate chain", chainCert),
      key: keyFormat === DER ? pemOf(read("key", key), key) : read("key", key),
      ca: caCert === null ? undefined : [read("CA certificate", caCert)],
      minVersion: MIN_VERSIONS[minVersion],
      requestCert: asks,
      rejectUnauthorized: asks && requires,
    };
    try {
      createServer(files);
    } catch (error) {
      throw new TlsError(`Error validating the certificate: ${chainCert} : ${reasonOf(error)}`);
    }
    if (ciphers === null) return files;
    const options = { ...files, ciphers };
    try {
      createServer(options);
    } catch (error) {
      throw new TlsError(`Error setting the cipher(s) of --admin: ${ciphers} : ${reasonOf(error)}`);
    }
    return options;
  }
}

function read(what: string, path: string): Buffer {
  try {
    return Buffer.from(readRegularFile(path));
  } catch (error) {
    throw new TlsError(`Error loading the ${what}: ${path} : ${reasonOf(error)}`);
  }
}

/** Returns a key in DER as PEM. */
function pemOf(der: Buffer, path: string): string {
  let failure: unknown;
  for (const type of ["pkcs8", "sec1", "pkcs1"] as const) {
    try {
      const key = createPrivateKey({ key: der, format: "der", type });
      return key.export({ format: "pem", type: "pkcs8" }) as string;
    } catch (error) {
      failure = error;
    }
  }
  throw new TlsError(`Error loading the key: ${path} : ${reasonOf(failure)}`);
}
