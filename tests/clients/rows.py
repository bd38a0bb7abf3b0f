"""Writes and reads rows through the update-token origin with a Python library: rows.py LIBRARY PORT[,PORT] PREFIX.

With two ports, each call goes to another server than the one before. Ends with status 1 on a surprise.
"""
import sys

ADDRESS = "127.0.0.1"


def expect(name, actual, expected):
    if actual != expected:
        sys.exit("%s: %.200r instead of %.200r" % (name, actual, expected))


def pymemcache(port):
    from pymemcache.client.base import Client

    return Client((ADDRESS, port), timeout=10, connect_timeout=10, default_noreply=False)


def pylibmc(port, binary):
    import pylibmc

    return pylibmc.Client(["%s:%d" % (ADDRESS, port)], binary=binary,
                          behaviors={"cas": True, "tcp_nodelay": True})


def hashed(ports):
    from pymemcache.client.hash import HashClient

    return HashClient([(ADDRESS, int(port)) for port in ports.split(",")], timeout=10, connect_timeout=10,
                      default_noreply=False)


class Turns:
    """Clients of several servers, in turns."""

    def __init__(self, clients):
        self.clients = clients
        self.turn = 0

    def __getattr__(self, name):
        self.turn = (self.turn + 1) % len(self.clients)
        return getattr(self.clients[self.turn], name)


LIBRARIES = {
    "pymemcache": (pymemcache, "pymemcache"),
    "pylibmc-text": (lambda port: pylibmc(port, False), "pylibmc"),
    "pylibmc-binary": (lambda port: pylibmc(port, True), "pylibmc"),
}


def work(client, prefix):
    a, number, absent = prefix + "a", prefix + "number", prefix + "absent"
    many = {prefix + "key-%d" % count: b"v" * count * 37 for count in range(1, 30)}
    expect("get, missing", client.get(absent), None)
    expect("set", client.set(a, b"one"), True)
    expect("get", client.get(a), b"one")
    expect("get again", client.get(a), b"one")
    expect("add, present", client.add(a, b"two"), False)
    expect("replace", client.replace(a, b"three"), True)
    expect("append", client.append(a, b"x"), True)
    expect("prepend", client.prepend(a, b"y"), True)
    expect("get after append and prepend", client.get(a), b"ythreex")
    value, unique = client.gets(a)
    expect("gets", value, b"ythreex")
    expect("cas, right id", client.cas(a, b"new", unique), True)
    expect("cas, used id", client.cas(a, b"old", unique), False)
    expect("get after cas", client.get(a), b"new")
    client.set(number, b"10")
    expect("incr", client.incr(number, 5), 15)
    expect("decr", client.decr(number, 20), 0)
    expect("incr, far", client.incr(number, 2 ** 31 - 1), 2 ** 31 - 1)
    expect("incr, farther", client.incr(number, 2 ** 31 - 1), 2 ** 32 - 2)
    expect("incr, above 2^32", client.incr(number, 7), 2 ** 32 + 5)
    set_many = getattr(client, "set_multi", None) or client.set_many
    get_many = getattr(client, "get_multi", None) or client.get_many
    expect("set_many", set_many(many), [])
    expect("get_many", get_many(list(many) + [absent]), many)
    expect("get_many again", get_many(list(many) + [absent]), many)
    expect("delete", client.delete(a), True)
    expect("get, deleted", client.get(a), None)
    expect("delete, missing", client.delete(absent), False)
    try:
        refused = not client.set(a, b"x", 60)
    except Exception:
        refused = True
    expect("an exptime is refused", refused, True)
    expect("get, refused", client.get(a), None)
    client.set(a, b"last")


library, ports, prefix = sys.argv[1:]
if library == "pymemcache-hash":
    work(hashed(ports), prefix)
else:
    connect, module = LIBRARIES[library]
    work(Turns([connect(int(port)) for port in ports.split(",")]), prefix)
