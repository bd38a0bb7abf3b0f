-- Rights of the origin's user for --follow, beside those of contrib/proxy_user.sql. For a superuser, after:
-- leased proxy init --follow --run --db postgres://…
ALTER ROLE proxy REPLICATION;
GRANT SELECT, INSERT, UPDATE, DELETE ON leased_follow TO proxy;
-- To tell how long a transaction has been open that a start waits for, and not only how many are younger:
-- GRANT pg_read_all_stats TO proxy;
