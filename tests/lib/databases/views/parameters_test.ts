// Parameters of all types: the keys that reads accept are those that changes of the log delete.
import { assert, assertEquals } from "@std/assert";
import { latin1Text } from "../../../../store/base/bytes.ts";
import type { Backend, PreparedViews } from "../../../../lib/databases/base/backend.ts";
import type { ChangeStream } from "../../../../lib/databases/base/changes.ts";
import { openPostgres } from "../../../../lib/databases/postgres/backend.ts";
import { DEFAULT_TABLE } from "../../../../lib/databases/base/table.ts";
import type { Views } from "../../../../lib/databases/views/view.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { testPostgres, withSession } from "../../../support/postgres_backend.ts";
import { randomFrom } from "../../../support/random.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";

/** Drawn of each type. */
const VALUES = 15;
const SETTINGS = { connectionsMax: 4, timeoutMs: 30_000 };

type Random = () => number;

interface Case {
  /** Of the column. */
  readonly type: string;
  /** Of the parameter and the column in the query. */
  readonly where?: string;
  /** Texts of one value, and texts that are no value. */
  readonly texts: (random: Random) => readonly string[];
}

function pick<Item>(random: Random, items: readonly Item[]): Item {
  return items[Math.floor(random() * items.length)]!;
}

function whole(random: Random, below: number): number {
  return Math.floor(random() * below);
}

/** Different texts of a number. */
function numbers(random: Random): string[] {
  const sign = pick(random, ["", "-"]);
  const digits = String(whole(random, 1500));
  const fraction = pick(random, ["", "5", "50", "25", "05", "00", "0"]);
  const number = fraction === "" ? digits : `${digits}.${fraction}`;
  return [
    `${sign}${number}`,
    `${sign}0${number}`,
    `${sign}${number}${fraction === "" ? ".00" : "0"}`,
    `${sign}${digits}${fraction}e-${fraction.length}`,
    `${sign}${number} `,
    ...pick(random, [["1_000"], ["-0"], ["abc"], ["", "0x1"]]),
  ];
}

const UNBOUND = ["NaN", "nan", "Infinity", "inf", "-Infinity", "1e40", "0.000000000000000000001"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"];

/** Different texts of a day. */
function days(random: Random): string[] {
  const special = ["infinity", "-infinity", "epoch", "tomorrow", "2024-02-31", "J2451187"];
  if (random() < 0.2) return special;
  const year = pick(random, [String(1900 + whole(random, 200)), "0044", "10000", "294000"]);
  const month = 1 + whole(random, MONTHS.length);
  const day = 1 + whole(random, 28);
  const era = year === "0044" || random() < 0.1 && year.length === 4 ? " BC" : "";
  const two = (number: number): string => String(number).padStart(2, "0");
  return [
    `${year}-${two(month)}-${two(day)}${era}`,
    `${year}-${month}-${day}${era}`,
    `${day} ${MONTHS[month - 1]} ${year}${era}`,
    `${two(day)}.${two(month)}.${year}${era}`,
    `${two(month)}/${two(day)}/${year}${era}`,
  ];
}

function times(random: Random): string[] {
  const two = (below: number): string => String(whole(random, below)).padStart(2, "0");
  const minutes = `${two(24)}:${two(60)}`;
  const seconds = pick(random, ["00", "07", "59"]);
  const fraction = pick(random, ["5", "50", "000001", "25"]);
  return [
    ...[`${minutes}:${seconds}`, `${minutes}:${seconds}.0`, `${minutes}:${seconds}.${fraction}`],
    ...[`${minutes}:${seconds}.${fraction}0`, minutes],
  ];
}

function moments(random: Random, zones: readonly string[]): string[] {
  const [day, , , , american] = days(random);
  if (american === undefined || day === undefined) return ["infinity", "-infinity", "now", "epoch"];
  const [date, era = ""] = day.split(" ");
  return times(random).flatMap((time) => {
    const zone = pick(random, zones);
    const behind = era === "" ? "" : ` ${era}`;
    const utc = zones.length > 1 ? "+00" : "";
    return [
      `${date} ${time}${zone}${behind}`,
      `${date}T${time}${zone}${behind}`,
      `${date}T${time}${utc}${behind}`,
      `${date} ${time}${behind}`,
      `${american} ${time}`,
    ];
  });
}

/** Different texts that are equal by some rules. */
function words(random: Random): string[] {
  const word = pick(random, [
    "abc",
    "Zoo",
    "x'y",
    "",
    "1",
    "a b",
    "Tür",
    "ΣΑΣ",
    "İx",
    "ß",
    "\u212a",
  ]);
  const upper = word.toUpperCase();
  return [word, `${word} `, `${word}  `, ` ${word}`, upper, word.toLowerCase(), `${word}\n`];
}

function addresses(random: Random): string[] {
  const byte = (): number => whole(random, 256);
  const address = `${byte()}.${byte()}.${byte()}.${byte()}`;
  const net = `${byte()}.${byte()}.0.0`;
  return [
    ...[address, `${address}/32`, `${net}/16`, `${net}/32`, net, `::ffff:${address}`],
    ...["::1", "0:0::1", "::1/128", "FE80::1", "fe80:0::1", `${address}/8`],
  ];
}

const LABELS = ["new", "NEW", "in work", "größe", " x", "new "];
const UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1";

const CASES: readonly Case[] = [
  { type: "bigint", texts: numbers },
  { type: "bigint", where: "k = {k}::numeric", texts: numbers },
  { type: "numeric", texts: (random) => [...numbers(random), pick(random, UNBOUND)] },
  { type: "numeric(12,4)", texts: numbers },
  { type: "numeric(8,1)", where: "k = {k}::integer", texts: numbers },
  { type: "money_like", texts: numbers },
  { type: "money_like", where: "k = {k}::money_like", texts: numbers },
  { type: "text", texts: words },
  { type: "varchar(5)", texts: words },
  { type: "short", texts: words },
  { type: "shorter", where: "k = {k}::shorter", texts: words },
  { type: "char(5)", texts: words },
  { type: "padded", where: "k = {k}::padded", texts: words },
  { type: "citext", texts: words },
  { type: "citext", texts: (random) => words(random).filter((text) => /^[ -~]*$/.test(text)) },
  { type: "loose", texts: words },
  { type: "mood", texts: (random) => [pick(random, LABELS), pick(random, ["New", "x", ""])] },
  { type: "mood", where: "k::text = {k}", texts: () => LABELS },
  { type: "mood_like", where: "k::mood = {k}", texts: () => LABELS },
  { type: "date", texts: days },
  { type: "day", where: "k = {k}::day", texts: days },
  { type: "time", texts: (random) => [...times(random), "24:00", "24:00:00", "00:00:00"] },
  { type: "timestamp", texts: (random) => moments(random, [""]) },
  { type: "timestamp(0)", texts: (random) => moments(random, [""]) },
  { type: "timestamptz", texts: (random) => moments(random, ["+00", "Z", "+05:30", "-03"]) },
  { type: "boolean", texts: () => ["t", "true", "f", "FALSE", "1", "on"] },
  {
    type: "uuid",
    texts: (random) => {
      const one = UUID + whole(random, 10);
      return [one, one.toUpperCase(), one.replaceAll("-", ""), `{${one}}`];
    },
  },
  { type: "inet", texts: addresses },
  { type: "cidr", where: "k = {k}::cidr", texts: addresses },
  { type: "macaddr", texts: () => ["08:00:2b:01:02:03", "08-00-2B-01-02-03", "08002b010203"] },
];

const SETUP = `
CREATE EXTENSION citext;
CREATE TYPE mood AS ENUM (${LABELS.map((label) => `'${label}'`).join()});
CREATE DOMAIN mood_like AS mood;
CREATE DOMAIN money_like AS numeric(10,2) CHECK (VALUE > -500);
CREATE DOMAIN short AS varchar(5);
CREATE DOMAIN shorter AS short CHECK (VALUE <> 'zoo');
CREATE DOMAIN padded AS char(4);
CREATE DOMAIN loose AS citext;
CREATE DOMAIN day AS date;
`;

/** A view over a table of each case: \`0:{k}\` of table t0. */
const FILE = JSON.stringify(Object.fromEntries(CASES.map(({ where = "k = {k}" }, index) => [
  `${index}:{k}`,
  {
    query: `SELECT id FROM t${index} WHERE ${where} ORDER BY id`,
    value: "array",
    changes: { [`t${index}`]: `${index}:{k}` },
  },
])));

interface Parts {
  readonly views: Views;
  readonly prepared: PreparedViews;
  readonly stream: ChangeStream;
  readonly execute: (sql: string) => Promise<string>;
}

/** Runs a test with a backend whose settings, by its URL and the database, write times in other ways. */
async function withTables(
  url: string,
  server: { execute: (sql: string, url: string) => Promise<string> },
  test: (parts: Parts) => Promise<void>,
): Promise<void> {
  const execute = (sql: string): Promise<string> => server.execute(sql, url);
  const name = new URL(url).pathname.slice(1);
  await execute(
    `ALTER DATABASE ${name} SET TimeZone = 'America/St_Johns'; ` +
      `ALTER DATABASE ${name} SET DateStyle = 'SQL, DMY'; ${SETUP} ` +
      CASES.map(({ type }, index) =>
        `CREATE TABLE t${index} (id integer PRIMARY KEY, k ${type}); ` +
        `ALTER TABLE t${index} REPLICA IDENTITY FULL;`
      ).join(" "),
  );
  const odd = `${url}?datestyle=German&TIMEZONE=Asia/Kolkata&DateStyle=Postgres`;
  const backend: Backend = await openPostgres(odd, DEFAULT_TABLE, SETTINGS);
  try {
    const views = parseViews(FILE, "views.jsonc", [""]);
    await backend.prepareChanges(views);
    const prepared = await backend.prepareViews(views);
    const stream = await backend.openChanges(true);
    await stream.begin();
    await test({ views, prepared, stream, execute });
    await stream.close();
    await prepared.close();
  } finally {
    await backend.close();
  }
}

function keyOf(index: number, text: string): string {
  return latin1Text(new TextEncoder().encode(`${index}:${text}`));
}

/** Takes changes until the row of keys that says so. @returns The keys and prefixes before it. */
async function takeChanges(
  { stream, execute }: Parts,
): Promise<{ keys: Set<string>; prefixes: string[] }> {
  const keys = new Set<string>();
  const prefixes: string[] = [];
  await execute("INSERT INTO kv (key) VALUES ('end'); DELETE FROM kv");
  for (;;) {
    const changes = await stream.next();
    for (const key of changes.keys) keys.add(key);
    prefixes.push(...changes.prefixes);
    if (keys.delete("end")) return { keys, prefixes };
  }
}

testPostgres("the keys that reads accept are those that changes delete", async (url, server) => {
  await withSeed(drawSeed(), async (seed) => {
    await withTables(url, server, async (parts) => {
      const { views, prepared } = parts;
      const random = randomFrom(seed);
      const tried: Set<string>[] = [];
      await withSession(url, async (writer) => {
        for (const [index, { type, texts }] of CASES.entries()) {
          const drawn = new Set<string>();
          tried.push(drawn);
          await writer.query(`SET TimeZone = '${pick(random, ["UTC", "Asia/Tokyo"])}'`);
          for (let values = 0; values === 0;) {
            for (const text of Array.from({ length: VALUES }, () => texts(random)).flat()) {
              if (drawn.has(text)) continue;
              try {
                await writer.query(
                  `INSERT INTO t${index} SELECT ${drawn.size}, $1::text::${type}`,
                  [text],
                );
                values++;
              } catch {
                // It is no value of the type.
              }
              drawn.add(text);
            }
          }
        }
      });
      const { keys, prefixes } = await takeChanges(parts);
      for (const [index, { type, where }] of CASES.entries()) {
        const what = `${type} ${where ?? ""}`;
        const own = [...keys].filter((key) => key.startsWith(`${index}:`));
        const folded = await parts.execute(`SELECT json_agg(lower(k::text)) FROM t${index}`);
        const forms = [...tried[index]!, ...JSON.parse(folded) as string[]];
        const asked = [...new Set([...forms.map((text) => keyOf(index, text)), ...own])];
        const found = await prepared.readMany(asked.map((key) => views.find(key)!));
        const ids: number[] = [];
        for (const [place, { row, problem }] of found.entries()) {
          const key = asked[place]!;
          assertEquals(problem, undefined, `${what}: ${key}`);
          const rows = row === null ? [] : JSON.parse(new TextDecoder().decode(row.data));
          if (rows.length === 0) {
            // Beyond what another type of the parameter can have.
            assert(!own.includes(key) || where !== undefined, `${what}: no rows of ${key}`);
            continue;
          }
          ids.push(...rows.map(({ id }: { id: number }) => id));
          const isDeleted = keys.has(key) || prefixes.some((prefix) => key.startsWith(prefix));
          assert(isDeleted, `${what}: the key ${JSON.stringify(key)} is never deleted`);
        }
        assertEquals(ids.length, new Set(ids).size, `${what}: a row has several keys`);
        const count = Number(await parts.execute(`SELECT count(*) FROM t${index}`));
        assert(count > 0, what);
        if (where === undefined) assertEquals(ids.length, count, `${what}: a row has no key`);
      }
    });
  });
});
