"""The flows of examples/coherent_pymemcache.py: coherent_flows.py PORT. The server has -z 3333 and --state-dir."""
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
from coherent_pymemcache import CoherentClient, LockLost, Locked, NotConfirmed, OutcomeUnknown  # noqa: E402

SERVER = ("127.0.0.1", int(sys.argv[1]))


class Database:
    def __init__(self):
        self.row, self.loads = b"1", 0

    def load(self):
        self.loads += 1
        return self.row

    def commit(self, row):
        self.row = row
        return "committed"


def fail():
    raise ValueError("constraint")


def raises(kind, function):
    try:
        function()
    except kind as error:
        return error
    raise AssertionError("no %s" % kind.__name__)


cache, other, database = CoherentClient(SERVER), CoherentClient(SERVER), Database()

# Loads once, then hits.
assert cache.get_or_load("a", database.load) == b"1"
assert other.get_or_load("a", database.load) == b"1" and database.loads == 1

# Twenty readers of a missing key: one load, and the others wait for it.
cache.delete("a", noreply=False)
database.loads, found = 0, []
herd = [
    threading.Thread(target=lambda: found.append(CoherentClient(SERVER).get_or_load("herd", database.load, wait=30)))
    for _ in range(20)
]
for thread in herd:
    thread.start()
for thread in herd:
    thread.join()
assert found == [b"1"] * 20 and database.loads == 1, (found, database.loads)

# A write while a reader loads: what the reader loaded before it is not kept.
def load_slowly():
    row = database.load()
    other.put(["slow"], lambda: database.commit(b"2"))
    return row


assert cache.get_or_load("slow", load_slowly) == b"1"
assert cache.get("slow") is None
assert cache.get_or_load("slow", database.load, wait=10) == b"2"

# A load that fails gives its lease back, so that the next reader need not wait.
raises(ValueError, lambda: cache.get_or_load("fails", fail, lease=60))
assert other.get_or_load("fails", database.load, wait=0) == b"2" and other.get("fails") == b"2"

# Who may not wait loads without keeping.
cache._fetch_cmd(b"getss 60", ["held"], True)
assert other.get_or_load("held", database.load, wait=0) == b"2" and other.get("held") is None

# A commit that fails invalidates too: it may have taken effect.
cache.set("b", b"old", noreply=False)
raises(ValueError, lambda: cache.put(["b"], fail))
assert cache.get("b") is None

# Update tokens: the key is uncacheable while the commit runs, and readers load meanwhile.
def commit_watched():
    assert other.get_or_load("t", database.load, wait=0) == b"2" and other.get("t") is None
    return database.commit(b"3")


assert cache.put(["t", "u"], commit_watched, tokens=True) == "committed"
assert other.get_or_load("t", database.load, wait=10) == b"3" and other.get("t") == b"3"
raises(ValueError, lambda: cache.put(["t"], fail, tokens=True, rolled_back=[ValueError]))
assert other.get_or_load("t", database.load, wait=10) == b"3" and other.get("t") == b"3"
unknown = raises(OutcomeUnknown, lambda: cache.put(["t"], fail, tokens=True))
assert other.get_or_load("t", database.load, wait=0) == b"3" and other.get("t") is None
cache.release(unknown.tokens)
assert other.get_or_load("t", database.load, wait=10) == b"3" and other.get("t") == b"3"

# A lock: a number that grows, changes of others refused, invalidation and tokens wait for its end.
with cache.with_lock("l") as lock:
    first = lock.fence
    lock.set("l", b"mine", noreply=False)
    raises(Locked, lambda: other.with_lock("l").__enter__())
    assert raises(NotConfirmed, lambda: other.invalidate(["l"], limit=0)).args[0] == ["l"]
    raises(Locked, lambda: other.put(["l", "k"], fail, tokens=True, limit=0))
with other.with_lock("l", wait=5) as lock:
    assert lock.fence > first and lock.get("l") == b"mine"


# A lock whose connection has ended is lost, and the client does not connect again.
def lose():
    with cache.with_lock("l") as lock:
        lock.close()
        lock.set("l", b"not mine", noreply=False)


raises(LockLost, lose)
assert cache.get("l") == b"mine"

# A server that is away: rows are loaded, and a commit is reported as not confirmed.
away = CoherentClient(("127.0.0.1", 1), connect_timeout=1)
assert away.get_or_load("a", database.load) == b"3"
assert raises(NotConfirmed, lambda: away.put(["a"], lambda: database.commit(b"4"), limit=0)).args[0] == ["a"]
assert database.row == b"4"
print("ok")
