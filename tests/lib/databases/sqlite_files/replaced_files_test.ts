// A database file that is replaced, deleted or moved under a server: no reply is a value that the file at the path has
// not, and the server goes on when its file is back, or after a restart.
import { assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { createDatabase, type TestDatabase } from "../../../support/servers/databases.ts";
import { startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { healthOf, read, Shop } from "../views/shop.ts";
import { Dice } from "../sqlite_schemas/dice.ts";

const CASES = roundsOf(2);
const ACTS = 3;
const ROWS = ["r1", "r2"];
const VIEWS = ["name:Chess", "name:Atlas"];
/** How the server is started: without the log, with it and views, and with a node. */
const ROLES = ["plain", "views", "node"] as const;
const ADMIN = ["--admin", "127.0.0.1:0"];
const BESIDE = ["-wal", "-shm"];
const GONE =
  /^SERVER_ERROR .*(?:the file was deleted or replaced|rows are not available|serves no rows)/;
const HEALTH = /^503 .*(?:the file was deleted or replaced)/;

/** Something that happens to the file. It may be undone: then the server's file is at its path again. */
interface Act {
  readonly name: string;
  readonly act: (place: Place) => void;
  readonly undo?: (place: Place) => void;
  /** The file is at its path: reads notice it within a second, not at once. */
  readonly isLate?: boolean;
  /** The server's file has other bytes: SQLite promises nothing until a restart. */
  readonly isInPlace?: boolean;
}

/** Where the file is. */
interface Place {
  /** As the server knows it: perhaps a symbolic link. */
  readonly path: string;
  /** The file itself. */
  readonly file: string;
  readonly folder: string;
  /** A file with other values, and one with those of some time ago. */
  readonly other: string;
  readonly older: string;
}

const ACTS_ON_FILES: readonly Act[] = [
  {
    name: "another file is renamed over it, with what is beside it",
    act: ({ file, other, folder }) => {
      Deno.copyFileSync(other, `${folder}/new`);
      for (const end of BESIDE) removeIfThere(file + end);
      Deno.renameSync(`${folder}/new`, file);
    },
  },
  {
    name: "an older file is renamed over it, and what was beside it stays",
    act: ({ file, older, folder }) => {
      Deno.copyFileSync(older, `${folder}/new`);
      Deno.renameSync(`${folder}/new`, file);
    },
  },
  { name: "it is deleted", act: ({ file }) => removeIfThere(file) },
  {
    name: "it is deleted and made again",
    act: ({ file, other }) => {
      for (const end of ["", ...BESIDE]) removeIfThere(file + end);
      Deno.copyFileSync(other, file);
    },
  },
  {
    name: "it is moved away",
    act: ({ file }) => Deno.renameSync(file, `${file}-away`),
    undo: ({ file }) => Deno.renameSync(`${file}-away`, file),
  },
  {
    name: "another file is in its place for a while",
    act: ({ file, other }) => {
      for (const end of ["", ...BESIDE]) {
        if (isThere(file + end)) Deno.renameSync(file + end, `${file}-away${end}`);
      }
      Deno.copyFileSync(other, file);
    },
    undo: ({ file }) => {
      for (const end of ["", ...BESIDE]) {
        removeIfThere(file + end);
        if (isThere(`${file}-away${end}`)) Deno.renameSync(`${file}-away${end}`, file + end);
      }
    },
  },
  {
    name: "its folder is renamed",
    act: ({ folder }) => Deno.renameSync(folder, `${folder}-away`),
    undo: ({ folder }) => Deno.renameSync(`${folder}-away`, folder),
  },
  {
    name: "a symbolic link names another file",
    act: ({ path, file, other }) => {
      if (path === file) Deno.renameSync(file, `${file}-away`);
      else Deno.removeSync(path);
      Deno.symlinkSync(other, path);
    },
    undo: ({ path, file }) => {
      Deno.removeSync(path);
      if (path === file) Deno.renameSync(`${file}-away`, file);
      else Deno.symlinkSync(file, path);
    },
  },
  {
    name: "what is beside it is deleted",
    isLate: true,
    act: ({ file }) => {
      for (const end of BESIDE) removeIfThere(file + end);
    },
  },
  { name: "it is truncated", act: ({ file }) => Deno.truncateSync(file, 0) },
  {
    name: "an older copy is written into it",
    act: ({ file, older }) => Deno.copyFileSync(older, file),
    isInPlace: true,
  },
  {
    name: "another file is written into it, without what was beside it",
    isLate: true,
    act: ({ file, other }) => {
      for (const end of BESIDE) removeIfThere(file + end);
      Deno.copyFileSync(other, file);
    },
  },
];

function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

function removeIfThere(path: string): void {
  if (isThere(path)) Deno.removeSync(path);
}

/** A server over a file to which something happens. */
class ReplacedCase implements AsyncDisposable {
  readonly done: string[] = [];
  readonly #dice: Dice;
  readonly #database: TestDatabase;
  readonly #shop: Shop | null;
  readonly #hasNode: boolean;
  readonly #place: Place;
  readonly #spare: string;
  #servers: ServerProcess[] = [];
  #clients: Client[] = [];
  #count = 0;

  private constructor(
    dice: Dice,
    database: TestDatabase,
    shop: Shop | null,
    hasNode: boolean,
    isLink: boolean,
    spare: string,
  ) {
    this.#dice = dice;
    this.#shop = shop;
    this.#hasNode = hasNode;
    this.#spare = spare;
    const { folder } = database;
    const file = database.url.slice("sqlite:".length);
    const path = isLink ? `${folder}/link.db` : file;
    if (isLink) Deno.symlinkSync(file, path);
    this.#database = { ...database, url: `sqlite:${path}` };
    this.#place = { path, file, folder, other: `${spare}/other.db`, older: `${spare}/older.db` };
  }

  static async open(dice: Dice): Promise<ReplacedCase> {
    const role = dice.pick(ROLES);
    const isLink = dice.chance(40);
    const database = await createDatabase("SQLite");
    const shop = role === "plain" ? null : await Shop.open(database);
    const opened = new ReplacedCase(
      dice,
      database,
      shop,
      role === "node",
      isLink,
      await Deno.makeTempDir(),
    );
    opened.done.push(`${role}${isLink ? ", by a symbolic link" : ""}`);
    await opened.#start();
    return opened;
  }

  get #origin(): ServerProcess {
    return this.#servers[0]!;
  }

  /** Starts the servers on the file as it is, and makes copies of it. */
  async #start(): Promise<void> {
    const { url, folder } = this.#database;
    const shop = this.#shop === null
      ? null
      : new Shop({ ...this.#database, url }, this.#shop.writer, this.#shop.path);
    const origin = shop === null
      ? await startOrigin({ url, folder }, ["--rows", "*", ...ADMIN])
      : await shop.start(ADMIN);
    this.#servers = [origin, ...this.#hasNode ? [await startNode([origin], ["--rows", "*"])] : []];
    this.#clients = await Promise.all(this.#servers.map((server) => server.connect()));
    for (const copy of [this.#place.older, this.#place.other]) {
      this.#write();
      removeIfThere(copy);
      using file = new DatabaseSync(this.#place.path, { timeout: 10_000 });
      file.exec(`VACUUM INTO '${copy}'`);
    }
    // The server's file has values that neither copy has.
    this.#write();
    await this.#serves();
  }

  /** Another program writes to the file that is at the path. */
  #write(): void {
    using file = new DatabaseSync(this.#place.path, { timeout: 10_000 });
    this.#count++;
    const put = file.prepare(
      "INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    );
    for (const key of ROWS) put.run(bytesOf(key), bytesOf(`${key} ${this.#count}`));
    if (this.#shop !== null) {
      file.exec("UPDATE product SET id = -id; UPDATE product SET id = 1 - id");
    }
  }

  get #keys(): readonly string[] {
    return this.#shop === null ? ROWS : [...ROWS, ...VIEWS];
  }

  /** Returns the value that the file at the path has; "": none. */
  #valueOf(key: string): string {
    using file = new DatabaseSync(this.#place.path, { readOnly: true, timeout: 10_000 });
    const row = key.startsWith("name:")
      ? file.prepare("SELECT id AS value FROM product WHERE name = ?").get(
        key.slice("name:".length),
      )
      : file.prepare("SELECT CAST(value AS TEXT) AS value FROM kv WHERE key = ?").get(bytesOf(key));
    return `${row?.["value"] ?? ""}`;
  }

  /** All servers have the values of the file at the path. */
  async #serves(): Promise<void> {
    // Without the log, a change by another program stays unnoticed.
    if (this.#shop === null) await this.#clients[0]!.ask("flush_all\r\n", "OK\r\n");
    for (const client of this.#clients) {
      for (const key of this.#keys) {
        const value = this.#valueOf(key);
        await until(async () => await read(client, key) === value);
        assertEquals(await read(client, key), value);
      }
    }
    await until(async () => (await healthOf(this.#origin)).startsWith("200"));
  }

  /** No server answers a value, a hit or a wait, after all have noticed what has happened. */
  async #refuses(): Promise<void> {
    const key = (): string => this.#dice.pick([...this.#keys, `absent${this.#count++}`]);
    for (const client of this.#clients) {
      for (const each of this.#keys) await this.#untilRefused(client, each);
    }
    await until(async () => HEALTH.test(await healthOf(this.#origin)));
    for (let round = 0; round < 6; round++) {
      for (const client of this.#clients) assertMatch(await read(client, key()), GONE);
    }
    const [client] = this.#clients as [Client];
    await client.send(`set ${this.#dice.pick(ROWS)} 0 0 1\r\nx\r\n`);
    assertMatch(await client.until(/\r\n$/), /^SERVER_ERROR/);
    if (this.#shop === null) return;
    await client.send("follow wait now 1000\r\n");
    assertMatch(await client.until(/\r\n$/), /^SERVER_ERROR/);
  }

  async #untilRefused(client: Client, key: string): Promise<void> {
    let last = "";
    try {
      await until(async () => GONE.test(last = await read(client, key)));
    } catch (error) {
      throw new Error(`${key} is answered with ${last}`, { cause: error });
    }
  }

  async happen(): Promise<void> {
    const { name, act, undo, isInPlace, isLate } = this.#dice.pick(ACTS_ON_FILES);
    this.done.push(name);
    act(this.#place);
    if (!isInPlace && !isLate) {
      const [client] = this.#clients as [Client];
      const misses = [`absent${this.#count++}`, ...this.#shop === null ? [] : ["name:absent"]];
      for (const key of misses) assertMatch(await read(client, key), GONE);
    }
    if (!isInPlace) await this.#refuses();
    for (const client of this.#clients) {
      await read(client, this.#dice.pick(this.#keys));
      await client.send("version\r\n");
      assertMatch(await client.until(/\r\n$/), /^VERSION/);
    }
    if (undo !== undefined) {
      undo(this.#place);
      if (this.#dice.chance(60)) {
        this.done.push("it is back");
        return await this.#serves();
      }
    }
    await this.#stop();
    this.done.push("restart");
    if (undo === undefined && !this.#isWhole()) this.#restore();
    await this.#start();
  }

  /** Whether a program can read the file at the path as it is. */
  #isWhole(): boolean {
    try {
      if (!isThere(this.#place.path)) return false;
      using file = new DatabaseSync(this.#place.path, { readOnly: true });
      const [row] = file.prepare("SELECT integrity_check AS result FROM pragma_integrity_check")
        .all();
      return row?.["result"] === "ok" && this.#valueOf(ROWS[0]!) !== "";
    } catch {
      return false;
    }
  }

  #restore(): void {
    const { file, other } = this.#place;
    this.done.push("it is put back from a copy");
    for (const end of ["", ...BESIDE]) removeIfThere(file + end);
    Deno.copyFileSync(other, file);
  }

  async #stop(): Promise<void> {
    for (const client of this.#clients) client[Symbol.dispose]();
    for (const server of this.#servers.toReversed()) {
      const { code, signal, stderr } = await server.stop();
      assertEquals([code, signal], [0, null], stderr);
    }
    this.#servers = [];
    this.#clients = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client[Symbol.dispose]();
    for (const server of this.#servers.toReversed()) await server[Symbol.asyncDispose]();
    await this.#shop?.[Symbol.asyncDispose]();
    for (const path of [this.#place.folder, `${this.#place.folder}-away`, this.#spare]) {
      if (isThere(path)) await Deno.remove(path, { recursive: true });
    }
  }
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

Deno.test("whatever happens to its file, a server answers by the file at the path, or an error", () =>
  withSeed(drawSeed(), async (seed) => {
    const dice = new Dice(seed);
    for (let count = 0; count < CASES; count++) {
      await using played = await ReplacedCase.open(dice);
      try {
        for (let act = 0; act < ACTS; act++) await played.happen();
      } catch (error) {
        if (error instanceof Error) error.message += `\n${played.done.join("\n")}`;
        throw error;
      }
    }
  }));
