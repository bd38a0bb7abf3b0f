import { needNow } from "../needs/needs.ts";
import { hasProgram } from "./peers.ts";

const HAS_OPENSSL = hasProgram("openssl");

/** A certificate and its key, in PEM, in files. */
export interface Certificate {
  readonly certPath: string;
  readonly keyPath: string;
  readonly cert: string;
  readonly key: string;
}

/** A folder with certificates that `openssl` makes, for localhost and 127.0.0.1. Removed at the end. */
export class Certificates implements Disposable {
  readonly folder: string;

  /** @param folder One that somebody else removes; otherwise one of its own. */
  constructor(folder: string = Deno.makeTempDirSync({ prefix: "leased-test-" })) {
    this.folder = folder;
  }

  /** A certificate that signs itself: its own authority. */
  make(
    name: string,
    key: readonly string[] = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
  ): Certificate {
    return this.#make(name, (certPath, keyPath) => {
      // deno-fmt-ignore
      openssl("req", "-x509", "-newkey", ...key, "-nodes", "-keyout", keyPath, "-out", certPath, "-days", "2",
        ...subject(name));
    });
  }

  /** As `make`, but it ended yesterday. */
  makeExpired(name: string): Certificate {
    return this.#make(name, (certPath, keyPath) => {
      const request = `${certPath}.csr`;
      // deno-fmt-ignore
      openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", keyPath, "-out", request, ...subject(name));
      // deno-fmt-ignore
      openssl("x509", "-req", "-in", request, "-signkey", keyPath, "-out", certPath, "-days", "-1",
        "-copy_extensions", "copy");
    });
  }

  #make(name: string, write: (certPath: string, keyPath: string) => void): Certificate {
    const [certPath, keyPath] = [`${this.folder}/${name}.pem`, `${this.folder}/${name}.key`];
    write(certPath, keyPath);
    const [cert, key] = [Deno.readTextFileSync(certPath), Deno.readTextFileSync(keyPath)];
    return { certPath, keyPath, cert, key };
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}

/** Runs a command of `openssl`. */
export function openssl(...args: string[]): void {
  needNow("openssl", HAS_OPENSSL);
  const { success, stderr } = new Deno.Command("openssl", { args, stderr: "piped" }).outputSync();
  if (!success) {
    throw new Error(`Cannot run openssl ${args[0]}: ${new TextDecoder().decode(stderr)}`);
  }
}

// deno-fmt-ignore
function subject(name: string): string[] {
  return ["-subj", `/CN=${name}`, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
    "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth,clientAuth"];
}

/** The options of a server with this certificate. */
export function tlsArguments({ certPath, keyPath }: Certificate, ...words: string[]): string[] {
  return ["-Z", "-o", [`ssl_chain_cert=${certPath}`, `ssl_key=${keyPath}`, ...words].join()];
}

/** Returns what a TLS client sends first. */
export async function clientHello({ cert }: Certificate): Promise<Uint8Array> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connecting = Deno.connectTls({
    hostname: "127.0.0.1",
    port: listener.addr.port,
    caCerts: [cert],
  });
  const accepted = await listener.accept();
  const client = await connecting;
  const handshake = client.handshake().catch(() => {});
  const buffer = new Uint8Array(4096);
  const length = await accepted.read(buffer);
  accepted.close();
  await handshake;
  client.close();
  return buffer.slice(0, length!);
}
