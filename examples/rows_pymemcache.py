"""Writes and reads a row through a server with a database: deno task rows"""

from pymemcache.client.base import Client

rows = Client(("127.0.0.1", 11311), default_noreply=False)
rows.set("article", b"title")     # returns when the database has committed
rows.get("article")               # b"title", from the cache if it is there

assert rows.get("article") == b"title"
assert rows.delete("article") and rows.get("article") is None
