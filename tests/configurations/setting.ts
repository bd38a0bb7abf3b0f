// Starts the server of a configuration, with the servers and files that its options name.

import { DatabaseSync } from "node:sqlite";
import { assertEquals } from "@std/assert";
import { type Assignments, wordsOf } from "../lib/cli/option_roles.ts";
import { type Certificate, Certificates, openssl } from "../support/servers/certificates.ts";
import { runInit } from "../support/servers/origin_process.ts";
import { Client, MAIN, ServerProcess } from "../support/servers/server_process.ts";
import { textLogin, USER_LINES } from "../support/sessions/auth_requests.ts";
import { waitingFor } from "../support/waiting.ts";
import type { Configuration } from "./covering.ts";

const USER = ["ann", "nna"] as const;
const TABLE_OPTIONS = [
  ...["table", "key-column", "value-column", "version-column", "flags-column"],
  ...["row-expiry", "expiry-column"],
];

export const VIEWS = `{
  "product:{id}": {
    "query": "SELECT name FROM product WHERE id = {id}", "value": "raw",
    "changes": { "product": "product:{id}" }
  }
}`;

/** Certificates that all configurations share, made when the first one needs them. */
export class SharedFiles implements Disposable {
  #certificates: Certificates | null = null;
  #certificate: Certificate | null = null;

  /** @throws MissingToolError */
  get certificate(): Certificate {
    if (this.#certificate !== null) return this.#certificate;
    this.#certificates ??= new Certificates();
    const certificate = this.#certificates.make("localhost");
    Deno.writeTextFileSync(this.both, certificate.cert + certificate.key);
    openssl("pkey", "-in", certificate.keyPath, "-outform", "DER", "-out", this.der);
    return this.#certificate = certificate;
  }

  /** The certificate and the key. */
  get both(): string {
    return `${this.#certificates!.folder}/both.pem`;
  }

  /** The key in DER. */
  get der(): string {
    return `${this.#certificates!.folder}/key.der`;
  }

  [Symbol.dispose](): void {
    this.#certificates?.[Symbol.dispose]();
  }
}

/** A server with the options of a configuration. */
export class ConfiguredServer implements AsyncDisposable {
  readonly given: Assignments;
  readonly #role: Configuration["role"];
  readonly #files: SharedFiles;
  readonly #folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  readonly #others: ServerProcess[] = [];
  #words: string[] = [];
  server!: ServerProcess;

  private constructor({ role, given }: Configuration, files: SharedFiles) {
    this.#role = role;
    this.given = given;
    this.#files = files;
  }

  static async start(configuration: Configuration, files: SharedFiles): Promise<ConfiguredServer> {
    const setting = new ConfiguredServer(configuration, files);
    try {
      await setting.#prepare();
      await setting.#begin();
    } catch (error) {
      await setting[Symbol.asyncDispose]();
      throw error;
    }
    return setting;
  }

  /** The command line. */
  get words(): string {
    return this.#words.join(" ");
  }

  get isBinary(): boolean {
    const protocol = this.given.get("protocol");
    return protocol === "binary" || (protocol === undefined && this.given.has("enable-sasl"));
  }

  /** Stops it and starts it again, with what it has kept. */
  async restart(): Promise<void> {
    this.server = await this.#launch(this.#words);
  }

  /** Connects as a user, to the Unix socket if it has one. */
  async connect(): Promise<Client> {
    const client = await this.#open();
    if (!this.isBinary && this.given.has("auth-file")) {
      await client.ask(textLogin(...USER), "STORED\r\n");
    }
    return client;
  }

  async #open(): Promise<Client> {
    if (this.given.has("unix-socket")) return await Client.connectUnix(`${this.#folder}/socket`);
    const { port } = this;
    if (!this.given.has("enable-ssl")) return await this.server.connect(port);
    const { cert, key } = this.#files.certificate;
    const options = { hostname: "127.0.0.1", port, caCerts: [cert] };
    const socket = this.asksForCertificate
      ? await Deno.connectTls({ ...options, cert, key })
      : await Deno.connectTls(options);
    await socket.handshake();
    return new Client(socket);
  }

  get asksForCertificate(): boolean {
    return ["1", "2"].includes(this.given.get("ssl-verify-mode") ?? "");
  }

  get port(): number {
    return portIn(this.#listening, /(?:^|[ ,])(?:tcp )?127\.0\.0\.1:(\d+)/);
  }

  get udpPort(): number {
    return portIn(this.#listening, /udp 127\.0\.0\.1:(\d+)/);
  }

  get counterPort(): number {
    return portIn(this.#listening.replace(/.* for counters on /, ""), /127\.0\.0\.1:(\d+)/);
  }

  get #listening(): string {
    const line = this.server.lines.find((each) => / listens on /.test(each))!;
    return line.replace(/.* listens on /, "").replace(/;.*/, "");
  }

  /** Asks the admin port. */
  async fetchAdmin(path: string): Promise<[status: number, body: string]> {
    const line = await this.server.line("metrics are at ");
    const base = /(https?:\/\/\S+?)metrics/.exec(line)![1]!;
    const { cert, key } = this.given.has("enable-ssl")
      ? this.#files.certificate
      : { cert: "", key: "" };
    const own = this.asksForCertificate ? { cert, key } : {};
    using client = Deno.createHttpClient({ caCerts: cert === "" ? [] : [cert], ...own });
    const response = await waitingFor(path, fetch(`${base}${path}`, { client }));
    return [response.status, await response.text()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server?.[Symbol.asyncDispose]();
    for (const other of this.#others) await other[Symbol.asyncDispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }

  /** Makes the files and starts the servers that the options name. */
  async #prepare(): Promise<void> {
    const folder = this.#folder;
    Deno.writeTextFileSync(`${folder}/users`, USER_LINES, { mode: 0o600 });
    Deno.writeTextFileSync(`${folder}/login`, `${USER.join(":")}\n`, { mode: 0o600 });
    Deno.writeTextFileSync(`${folder}/views`, VIEWS);
    Deno.mkdirSync(`${folder}/state`);
    if (this.#role === "views") {
      using file = new DatabaseSync(`${folder}/db`);
      file.exec(
        "CREATE TABLE product (id integer PRIMARY KEY, name text); INSERT INTO product VALUES (1, 'one')",
      );
    }
    if (this.given.has("follow")) await this.#init();
    const words = [
      ...this.given.has("port") || this.given.has("unix-socket") ? [] : ["--port", "-1"],
      ...this.given.has("threads") ? [] : ["--threads", "2"],
      ...wordsOf(this.given),
      "-vvv",
    ];
    const values: Record<string, string> = {
      ...words.some((word) => /\{(?:cert|key|der)\}/.test(word)) ? this.#certificateFiles() : {},
      db: `sqlite:${folder}/db`,
      postgres: `sqlite:${folder}/db`,
    };
    if (this.given.has("origin")) values.origin = await this.#startOrigin();
    this.#words = words.map((word) =>
      word.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? `${folder}/${name}`)
    );
  }

  #certificateFiles(): Record<string, string> {
    const { certificate: { keyPath }, both, der } = this.#files;
    return { cert: both, key: keyPath, der };
  }

  async #init(): Promise<void> {
    const place = { url: `sqlite:${this.#folder}/db`, folder: this.#folder };
    const views = this.given.has("views") ? ["--views", `${this.#folder}/views`] : [];
    const { code, stderr } = await runInit(place, [
      ...this.#wordsOf(TABLE_OPTIONS),
      "--follow",
      ...views,
      "--run",
    ]);
    assertEquals(code, 0, stderr);
  }

  /** Returns the words of those of these options that are given. */
  #wordsOf(names: readonly string[]): string[] {
    return names.flatMap((name) => {
      const value = this.given.get(name);
      return value === undefined ? [] : [`--${name}`, value];
    });
  }

  async #startOrigin(): Promise<string> {
    const own = [...this.#wordsOf(["rows", "row-expiry"]), "--db", `sqlite:${this.#folder}/db`];
    return await this.#startOther("origin-login", "origin-ca-cert", own);
  }

  /** @returns Its address. */
  async #startOther(login: string, tls: string, words: readonly string[]): Promise<string> {
    const other = await this.#launch([
      ...["-p", "-1", "-t", "1", ...words],
      ...this.given.has(login) ? ["-Y", `${this.#folder}/users`] : [],
      ...this.given.has(tls) ? ["-Z", "--ssl-chain-cert", this.#files.both] : [],
    ]);
    this.#others.push(other);
    return `127.0.0.1:${other.port}`;
  }

  async #begin(): Promise<void> {
    if (this.#role !== "standby") {
      this.server = await this.#launch(this.#words);
      return;
    }
    const table = this.#wordsOf(["rows", ...TABLE_OPTIONS]);
    const first = await this.#launch(
      ["-p", "-1", "-t", "1", "--db", `sqlite:${this.#folder}/db`, ...table],
    );
    this.#others.push(first);
    this.server = ServerProcess.launch(commandOf(this.#words));
    await this.server.line("waiting for its end");
    await first.stop();
    await this.server.line(/ listens on /);
  }

  #launch(words: readonly string[]): Promise<ServerProcess> {
    return ServerProcess.spawn(commandOf(words));
  }
}

function commandOf(words: readonly string[]): Deno.Command {
  // Options of the configuration take the place of these.
  const usual = ["-t", "2", "--no-warm-up"];
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--no-check", "--allow-all", MAIN, ...usual, ...words],
    env: { NO_COLOR: "1" },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  });
}

function portIn(text: string, pattern: RegExp): number {
  return Number(pattern.exec(text)![1]);
}
