-- The user of `leased proxy` in PostgreSQL, after the tables have been made:
-- leased proxy init --db postgres://… | psql …
-- For a superuser. "application" stands for every role that writes the table today.
-- Only this user may write rows: a write past the proxy would reach no cache.
CREATE ROLE proxy LOGIN PASSWORD 'secret';
GRANT SELECT, INSERT, UPDATE ON kv, leased_proxy TO proxy;
GRANT SELECT, INSERT, DELETE ON leased_applied TO proxy;
REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON kv FROM PUBLIC, application;
