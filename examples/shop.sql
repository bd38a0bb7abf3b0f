-- The tables of a shop, for docs/follow.md and examples/views.jsonc.
CREATE TABLE category (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE product (
  id integer PRIMARY KEY,
  category_id integer NOT NULL REFERENCES category,
  name text NOT NULL
);
CREATE INDEX product_category ON product (category_id, id);
CREATE TABLE price (product_id integer PRIMARY KEY REFERENCES product, cents integer NOT NULL);
INSERT INTO category VALUES (1, 'Books'), (2, 'Games');
INSERT INTO product VALUES (1, 1, 'Atlas'), (2, 2, 'Chess'), (3, 1, 'Diary');
INSERT INTO price VALUES (1, 2500), (2, 3900), (3, 800);
-- A product that leaves a category changes the pages of both: the log needs the old category, too.
-- For PostgreSQL only: SQLite refuses this line and does not need it.
ALTER TABLE product REPLICA IDENTITY FULL;
