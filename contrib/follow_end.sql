-- After --follow is used no more: PostgreSQL stops to keep its log for the origin.
-- For the origin's user or a superuser, after the origin has ended.
SELECT pg_drop_replication_slot('leased_' || oid) FROM pg_database WHERE datname = current_database();
