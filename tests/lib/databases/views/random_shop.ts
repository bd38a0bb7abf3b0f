// A shop of eight tables, ten views of it, and random statements of every kind that programs and migrations use.
import type { DatabaseKind } from "../../../support/servers/databases.ts";

/** Values of ids: few, so that statements meet. */
export const IDS = 6;
const CITIES = ["Bern", "Köln", "Oslo"];
const STATES = ["open", "paid", "sent"];

const POSTGRES_TABLES = `
CREATE EXTENSION IF NOT EXISTS citext;
CREATE TYPE state AS ENUM ('open', 'paid', 'sent');
CREATE TYPE size AS (width integer, height integer);
CREATE TABLE customer (id integer PRIMARY KEY, email citext UNIQUE, settings jsonb NOT NULL DEFAULT '{}', seen timestamptz);
CREATE TABLE address (id integer PRIMARY KEY, customer_id integer REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE,
  city text NOT NULL, tags text[] NOT NULL DEFAULT '{}');
CREATE TABLE product (id integer PRIMARY KEY, name varchar(40) NOT NULL, price numeric(9, 2) NOT NULL DEFAULT 1.50, box size,
  gross numeric GENERATED ALWAYS AS (price * 1.19) STORED);
CREATE TABLE stock (product_id integer REFERENCES product ON DELETE CASCADE, place char(3), amount integer NOT NULL CHECK (amount >= 0),
  PRIMARY KEY (product_id, place));
CREATE TABLE purchase (id integer PRIMARY KEY, customer_id integer REFERENCES customer ON DELETE SET NULL ON UPDATE CASCADE,
  state state NOT NULL DEFAULT 'open', placed date);
CREATE TABLE line (purchase_id integer REFERENCES purchase ON DELETE CASCADE, number integer, product_id integer REFERENCES product,
  amount integer NOT NULL, PRIMARY KEY (purchase_id, number));
CREATE TABLE category (id integer PRIMARY KEY, parent_id integer REFERENCES category ON DELETE SET NULL, name text NOT NULL);
CREATE TABLE product_category (product_id integer REFERENCES product ON DELETE CASCADE, category_id integer REFERENCES category ON DELETE CASCADE,
  PRIMARY KEY (product_id, category_id));
CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN UPDATE stock SET amount = amount - 1 WHERE product_id = NEW.product_id AND amount > 0; RETURN NEW; END $$;
CREATE TRIGGER take AFTER INSERT ON line FOR EACH ROW EXECUTE FUNCTION take();
ALTER TABLE address REPLICA IDENTITY FULL; ALTER TABLE purchase REPLICA IDENTITY FULL; ALTER TABLE line REPLICA IDENTITY FULL;
ALTER TABLE category REPLICA IDENTITY FULL;
`;

const SQLITE_TABLES = `
CREATE TABLE customer (id INTEGER PRIMARY KEY, email TEXT UNIQUE, settings TEXT NOT NULL DEFAULT '{}', seen TEXT);
CREATE TABLE address (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE,
  city TEXT NOT NULL, tags TEXT NOT NULL DEFAULT '');
CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL DEFAULT 1.50, box BLOB,
  gross REAL GENERATED ALWAYS AS (price * 1.19) STORED);
CREATE TABLE stock (product_id INTEGER REFERENCES product ON DELETE CASCADE, place TEXT, amount INTEGER NOT NULL CHECK (amount >= 0),
  PRIMARY KEY (product_id, place)) WITHOUT ROWID;
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer ON DELETE SET NULL ON UPDATE CASCADE,
  state TEXT NOT NULL DEFAULT 'open', placed TEXT);
CREATE TABLE line (purchase_id INTEGER REFERENCES purchase ON DELETE CASCADE, number INTEGER, product_id INTEGER REFERENCES product,
  amount INTEGER NOT NULL, PRIMARY KEY (purchase_id, number) ON CONFLICT REPLACE);
CREATE TABLE category (id INTEGER PRIMARY KEY, parent_id INTEGER REFERENCES category ON DELETE SET NULL, name TEXT NOT NULL);
CREATE TABLE product_category (product_id INTEGER REFERENCES product ON DELETE CASCADE, category_id INTEGER REFERENCES category ON DELETE CASCADE,
  PRIMARY KEY (product_id, category_id));
CREATE TRIGGER take AFTER INSERT ON line BEGIN
  UPDATE stock SET amount = amount - 1 WHERE product_id = NEW.product_id AND amount > 0; END;
`;

const ROWS = Array.from(
  { length: IDS },
  (_, id) =>
    `INSERT INTO customer (id, email) VALUES (${id}, 'e${id}');
  INSERT INTO address (id, customer_id, city) VALUES (${id}, ${id}, '${
      CITIES[id % CITIES.length]
    }');
  INSERT INTO product (id, name) VALUES (${id}, 'p${id}'); INSERT INTO stock VALUES (${id}, 'a', 9);
  INSERT INTO purchase (id, customer_id) VALUES (${id}, ${id}); INSERT INTO line VALUES (${id}, 1, ${id}, 2);
  INSERT INTO category VALUES (${id}, NULL, 'c${id}'); INSERT INTO product_category VALUES (${id}, ${id});`,
);

/** Statements that make the tables, with a row for each id. */
export function tablesOf(kind: DatabaseKind): string {
  return (kind === "SQLite" ? SQLITE_TABLES : POSTGRES_TABLES) + ROWS.join("\n");
}

const FILE = {
  "customer:{id}": {
    query: "SELECT customer.* FROM customer WHERE id = {id}",
    changes: { customer: "customer:{id}" },
  },
  "purchases:{customer}": {
    query: "SELECT id, state FROM purchase WHERE customer_id = {customer} ORDER BY id",
    value: "array",
    changes: { purchase: "purchases:{customer_id}" },
  },
  "purchase:{id}:lines": {
    query:
      "SELECT number, line.amount, name, price FROM line JOIN product ON product.id = product_id WHERE purchase_id = {id} ORDER BY number",
    value: "array",
    changes: { line: "purchase:{purchase_id}:lines", product: "purchase:*" },
  },
  "product:{id}": {
    query:
      "SELECT product.*, (SELECT sum(amount) FROM stock WHERE product_id = product.id) AS stock FROM product WHERE id = {id}",
    changes: { product: "product:{id}", stock: "product:{product_id}" },
  },
  "categories:{product}": {
    query:
      "SELECT name FROM product_category JOIN category ON category.id = category_id WHERE product_id = {product} ORDER BY name, id",
    value: "array",
    changes: { product_category: "categories:{product_id}", category: "categories:*" },
  },
  "in:{category}": {
    query:
      "SELECT product_id FROM product_category WHERE category_id = {category} ORDER BY product_id",
    value: "array",
    changes: { product_category: "in:{category_id}" },
  },
  "path:{id}": {
    query: [
      "WITH RECURSIVE above (id, parent_id, name, depth) AS (SELECT id, parent_id, name, 0 FROM category WHERE id = {id}",
      "UNION ALL SELECT category.id, category.parent_id, category.name, depth + 1",
      "FROM category JOIN above ON category.id = above.parent_id WHERE depth < 9)",
      "SELECT name FROM above ORDER BY depth",
    ],
    value: "array",
    changes: { category: "path:*" },
  },
  "city:{city}": {
    query:
      "SELECT address.id, email FROM address LEFT JOIN customer ON customer.id = customer_id WHERE city = {city} ORDER BY address.id",
    value: "array",
    changes: { address: "city:{city}", customer: "city:*" },
  },
  "children:{id}": {
    query: "SELECT count(*) FROM category WHERE parent_id = {id}",
    value: "raw",
    changes: { category: "children:{parent_id}" },
  },
  "total": {
    query: "SELECT count(*) AS lines, sum(amount) AS amount FROM line",
    changes: { line: "total" },
  },
};

export const RANDOM_SHOP_VIEWS = JSON.stringify(FILE);

/** Every key that a statement of this file can concern. */
export const KEYS: readonly string[] = Object.keys(FILE).flatMap((name) => {
  const values = name.includes("{city}") ? CITIES : Array.from({ length: IDS }, (_, id) => `${id}`);
  return name.includes("{") ? values.map((value) => name.replace(/\{\w+\}/, value)) : [name];
});

/** Chooses statements. */
export class Driver {
  readonly #random: () => number;
  readonly #isSqlite: boolean;
  #columns = 0;
  #isRenamed = false;

  constructor(random: () => number, kind: DatabaseKind) {
    this.#random = random;
    this.#isSqlite = kind === "SQLite";
  }

  #below(bound: number): number {
    return Math.floor(this.#random() * bound);
  }

  #of<Value>(values: readonly Value[]): Value {
    return values[this.#below(values.length)]!;
  }

  /** Returns a transaction that changes rows: it may be refused. */
  transaction(): string {
    const statements = Array.from({ length: 1 + this.#below(3) }, () => this.#statement());
    if (this.#below(4) > 0) return statements.join("; ");
    return `SAVEPOINT one; ${statements.join("; ")}; ROLLBACK TO one; ${this.#statement()}`;
  }

  #statement(): string {
    const id = (): number => this.#below(IDS);
    const name = `n${this.#below(99)}`;
    const both = [
      `INSERT INTO customer (id, email) VALUES (${id()}, '${name}') ON CONFLICT (id) DO UPDATE SET email = excluded.email`,
      `INSERT INTO customer (id, email) VALUES (${id()}, '${name}'), (${id()}, 'm${name}') ON CONFLICT DO NOTHING`,
      `UPDATE customer SET settings = '{"a": ${id()}}', seen = NULL WHERE id <> ${id()}`,
      `UPDATE customer SET id = ${id()} WHERE id = ${id()}`,
      `INSERT INTO address (id, customer_id, city) SELECT ${id()}, id, '${
        this.#of(CITIES)
      }' FROM customer WHERE id = ${id()} ` +
      "ON CONFLICT (id) DO UPDATE SET city = excluded.city, customer_id = excluded.customer_id",
      `UPDATE address SET city = '${this.#of(CITIES)}' WHERE customer_id IN (${id()}, ${id()})`,
      `UPDATE address SET customer_id = NULL WHERE id = ${id()}`,
      `INSERT INTO product (id, name) VALUES (${id()}, '${name}') ON CONFLICT DO NOTHING`,
      `UPDATE product SET price = price + 0.25, name = '${name}' WHERE id = ${id()}`,
      `INSERT INTO stock VALUES (${id()}, '${this.#of(["a", "b"])}', ${id()}) ` +
      "ON CONFLICT (product_id, place) DO UPDATE SET amount = stock.amount + excluded.amount",
      `UPDATE stock SET amount = amount - ${id()}`,
      `DELETE FROM stock WHERE amount = 0`,
      `INSERT INTO purchase (id, customer_id) VALUES (${id()}, ${
        this.#of([`${id()}`, "NULL"])
      }) ON CONFLICT DO NOTHING`,
      `UPDATE purchase SET customer_id = ${id()}, state = '${this.#of(STATES)}' WHERE id = ${id()}`,
      ...Array.from(
        { length: 4 },
        () => `INSERT INTO line VALUES (${id()}, ${id()}, ${id()}, ${id()})`,
      ),
      `UPDATE line SET number = number + 10 WHERE purchase_id = ${id()} AND number < 10`,
      `UPDATE line SET purchase_id = ${id()}, amount = amount + 1 WHERE product_id = ${id()}`,
      `INSERT INTO category VALUES (${id()}, NULL, '${name}') ON CONFLICT (id) DO UPDATE SET name = excluded.name`,
      `UPDATE category SET parent_id = ${id()} WHERE id = ${id()}`,
      `INSERT INTO product_category SELECT product.id, category.id FROM product, category WHERE category.id = ${id()} ON CONFLICT DO NOTHING`,
    ];
    const sqlite = [
      `REPLACE INTO line VALUES (${id()}, ${id()}, ${id()}, ${id()})`,
      `INSERT OR IGNORE INTO purchase (id, customer_id) VALUES (${id()}, ${id()}), (${id()}, ${id()})`,
      `UPDATE OR IGNORE customer SET email = '${name}'`,
    ];
    const postgres = [
      `UPDATE stock SET amount = line.amount FROM line WHERE line.product_id = stock.product_id AND line.number = ${id()}`,
      `WITH gone AS (DELETE FROM line WHERE purchase_id = ${id()} RETURNING *) ` +
      `INSERT INTO line SELECT ${id()}, number, product_id, amount FROM gone`,
      `MERGE INTO stock USING product ON product_id = product.id AND place = 'a' WHEN MATCHED AND amount > 3 THEN DELETE ` +
      "WHEN MATCHED THEN UPDATE SET amount = amount + 1 WHEN NOT MATCHED THEN INSERT VALUES (id, 'a', 1)",
      `UPDATE product SET box = ROW(${id()}, ${id()})::size WHERE id = ${id()}`,
      `UPDATE address SET tags = array_append(tags, '${name}') WHERE id = ${id()}`,
      `INSERT INTO category SELECT n, NULL, 'c' || n FROM generate_series(0, ${id()}) AS n ON CONFLICT DO NOTHING`,
    ];
    // Fewer, so that there is something to change.
    const deletions = [
      `DELETE FROM customer WHERE id = ${id()}`,
      `DELETE FROM product WHERE id = ${id()}`,
      `DELETE FROM purchase WHERE id = ${id()}`,
      `DELETE FROM line WHERE number >= 10`,
      `DELETE FROM category WHERE id = ${id()}`,
      `DELETE FROM product_category WHERE category_id = ${id()}`,
      ...this.#isSqlite
        ? ["DELETE FROM product_category"]
        : ["TRUNCATE product_category", "TRUNCATE line"],
    ];
    const changes = [...both, ...this.#isSqlite ? sqlite : postgres];
    return this.#of(this.#below(16) === 0 ? deletions : changes);
  }

  /** Returns a change of the schema, which succeeds. */
  migration(): string {
    const name = this.#isRenamed ? "shelf" : "category";
    const both = [
      () =>
        `ALTER TABLE product ADD COLUMN more${this.#columns++} integer DEFAULT ${this.#below(9)}`,
      () =>
        this.#columns === 0
          ? "CREATE INDEX IF NOT EXISTS by_city ON address (city)"
          : `ALTER TABLE product DROP COLUMN more${--this.#columns}`,
      () => `CREATE INDEX IF NOT EXISTS by_city ON address (city)`,
      () => `DROP INDEX IF EXISTS by_city`,
      () => {
        this.#isRenamed = !this.#isRenamed;
        return `ALTER TABLE ${name} RENAME TO ${this.#isRenamed ? "shelf" : "category"}`;
      },
    ];
    const postgres = [
      () =>
        "ALTER TYPE state RENAME VALUE 'sent' TO 'gone'; ALTER TYPE state RENAME VALUE 'gone' TO 'sent'",
      () =>
        "ALTER TYPE size RENAME ATTRIBUTE width TO w; ALTER TYPE size RENAME ATTRIBUTE w TO width",
      () => "ALTER TABLE product ALTER name TYPE text",
      () =>
        "ALTER TABLE stock ALTER amount TYPE bigint; ALTER TABLE stock ALTER amount TYPE integer",
      () =>
        "CREATE OR REPLACE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    ];
    return this.#of([...both, ...this.#isSqlite ? [] : postgres])();
  }

  /** Returns what takes back a renamed table. */
  restoration(): string | null {
    if (!this.#isRenamed) return null;
    this.#isRenamed = false;
    return "ALTER TABLE shelf RENAME TO category";
  }
}
