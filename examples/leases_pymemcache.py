"""Leases with pymemcache, in front of SQLite: leases_pymemcache.py [PORT [PREFIX]]

The server is started with `-z 3333`. getss and deletess are no words of pymemcache; its own means are enough to send them.
"""
import sqlite3
import sys
import threading
import time

from pymemcache.client.base import Client

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 11211
KEY = (sys.argv[2] if len(sys.argv) > 2 else "") + "article:1"
LEASE_FLAG = 0x3333  # the server's -z
TTL = 60


class Lease:
    """A reply of getss without a value. `remain`: 0 if the lease is ours, else the seconds another client holds it."""

    def __init__(self, remain):
        self.remain = remain


class LeaseSerde:
    """Tells leases from values by their flags."""

    def serialize(self, key, value):
        return value, 0

    def deserialize(self, key, value, flags):
        return Lease(int(value)) if flags == LEASE_FLAG else value.decode()


class LeaseClient(Client):
    def __init__(self):
        super().__init__(("127.0.0.1", PORT), timeout=10, serde=LeaseSerde())

    def getss(self, key, seconds):
        """The value or a Lease, and its cas id."""
        return self._fetch_cmd(b"getss %d" % seconds, [key], True)[key]

    def deletess(self, key, seconds):
        """Removes the key, and all rights to fill it. Returns the cas id of the new lease."""
        line, = self._misc_cmd([b"deletess %d %s\r\n" % (seconds, key.encode())], b"deletess", False)
        return line.split()[1]


class Articles:
    """A table, and the cache in front of it."""

    def __init__(self):
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, title TEXT)")
        self.database.execute("INSERT INTO article VALUES (1, 'first title')")
        self.database.commit()
        self.loads = 0

    def load(self):
        self.loads += 1
        return self.database.execute("SELECT title FROM article WHERE id = 1").fetchone()[0]

    def read(self, cache):
        for _ in range(100):
            value, cas_id = cache.getss(KEY, 10)
            if not isinstance(value, Lease):
                return value
            if value.remain == 0:  # the lease first, the database after it
                title = self.load()
                cache.cas(KEY, title, cas_id, expire=TTL)  # refused if the row has changed since
                return title
            time.sleep(0.05)  # another client holds the lease
        return self.load()  # without filling: the lease is not ours

    def write(self, cache, title):
        self.database.execute("UPDATE article SET title = ? WHERE id = 1", (title,))
        self.database.commit()
        cache.deletess(KEY, 1)  # after the commit, always


def expect(what, actual, expected):
    if actual != expected:
        sys.exit("%s: %r instead of %r" % (what, actual, expected))
    print("%s: %r" % (what, actual))


articles = Articles()
cache, slow = LeaseClient(), LeaseClient()
cache.delete(KEY, noreply=False)
expect("the first reader asks the database", (articles.read(cache), articles.loads), ("first title", 1))
expect("the second finds it in the cache", (articles.read(slow), articles.loads), ("first title", 1))

cache.delete(KEY, noreply=False)
lease, cas_id = slow.getss(KEY, 10)
stale = articles.load()
articles.write(cache, "second title")
expect("what a slow reader read before the update is not stored", slow.cas(KEY, stale, cas_id, expire=TTL), False)
expect("the next reader sees the update", articles.read(cache), "second title")

cache.delete(KEY, noreply=False)
articles.loads = 0
titles = []
herd = [threading.Thread(target=lambda: titles.append(articles.read(LeaseClient()))) for _ in range(20)]
for thread in herd:
    thread.start()
for thread in herd:
    thread.join()
expect("twenty readers at once, one load", (set(titles), articles.loads), ({"second title"}, 1))
