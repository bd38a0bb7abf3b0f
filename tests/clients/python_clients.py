"""Drives a server with a Python library as an application would: python_clients.py LIBRARY PORT PREFIX [alone].

LIBRARY is one of those at the end. All keys begin with PREFIX, so that many can be run at the same time; with `alone` it also
flushes and looks at statistics. With LEASED_TLS_CA in the environment, a path, they speak TLS; with LEASED_ROWS every key is a row. Ends with status 1 on a surprise.
"""
import os
import ssl
import sys

ADDRESS = "127.0.0.1"
LARGE = bytes(number * 7 % 256 for number in range(1000 * 1000))
TOO_LARGE = LARGE + LARGE


def tls_context():
    """None: plain."""
    path = os.environ.get("LEASED_TLS_CA")
    return path and ssl.create_default_context(cafile=path)


def expect(name, actual, expected):
    if actual != expected:
        sys.exit("%s: %.200r instead of %.200r" % (name, actual, expected))


class Pymemcache:
    """What the libraries call differently, in one way. None for what a library does not have."""

    def __init__(self, port):
        from pymemcache.client.base import Client

        self.client = Client((ADDRESS, port), timeout=10, connect_timeout=10, default_noreply=False,
                             tls_context=tls_context())
        for name in "get set add replace gets cas incr decr append prepend touch delete".split():
            setattr(self, name, getattr(self.client, name))
        self.set_many = lambda values: self.client.set_many(values) == []
        self.get_many = self.client.get_many
        self.flush = self.client.flush_all

    def stat(self, name):
        return int(self.client.stats()[name.encode()])

    def refuses(self, key, value):
        from pymemcache.exceptions import MemcacheServerError

        try:
            self.set(key, value)
        except MemcacheServerError:
            return True


class Pylibmc:
    def __init__(self, port, binary):
        import pylibmc

        self.client = pylibmc.Client(["%s:%d" % (ADDRESS, port)], binary=binary,
                                     behaviors={"cas": True, "tcp_nodelay": True})
        for name in "get set add gets cas incr decr append prepend delete".split():
            setattr(self, name, getattr(self.client, name))
        self.replace = self.false_if_missing(self.client.replace)
        self.touch = self.false_if_missing(self.client.touch)
        self.set_many = lambda values: self.client.set_multi(values) == []
        self.get_many = self.client.get_multi
        self.flush = self.client.flush_all

    @staticmethod
    def false_if_missing(function):
        """In the binary protocol it says so by an exception."""
        import pylibmc

        def call(*arguments):
            try:
                return function(*arguments)
            except pylibmc.NotFound:
                return False

        return call

    def stat(self, name):
        [(_, stats)] = self.client.get_stats()
        return int(stats[name])

    def refuses(self, key, value):
        import pylibmc

        try:
            return not self.set(key, value)
        except pylibmc.Error:
            return True


class Bmemcached:
    append = prepend = touch = None

    def __init__(self, port):
        import bmemcached

        self.client = bmemcached.Client(("%s:%d" % (ADDRESS, port),), socket_timeout=10, tls_context=tls_context())
        for name in "get set add replace gets cas incr decr delete".split():
            setattr(self, name, getattr(self.client, name))
        self.set_many = lambda values: self.client.set_multi(values) == []
        self.get_many = self.client.get_multi
        self.flush = self.client.flush_all

    def stat(self, name):
        [stats] = self.client.stats().values()
        return int(stats[name])

    def refuses(self, key, value):
        from bmemcached.exceptions import MemcachedException

        try:
            # Unpacked: it would fit otherwise.
            self.set(key, value, compress_level=0)
        except MemcachedException:
            return True


def work(client, prefix):
    a, number, absent = prefix + "a", prefix + "number", prefix + "absent"
    expect("get, missing", client.get(absent), None)
    expect("set", client.set(a, b"one"), True)
    expect("get", client.get(a), b"one")
    expect("add, present", client.add(a, b"two"), False)
    expect("replace", client.replace(a, b"three"), True)
    expect("replace, missing", client.replace(absent, b"x"), False)
    if client.append is not None:
        expect("append", client.append(a, b"x"), True)
        expect("prepend", client.prepend(a, b"y"), True)
        expect("append, missing", client.append(absent, b"y"), False)
        expect("get after append and prepend", client.get(a), b"ythreex")
    value, unique = client.gets(a)
    expect("cas, right id", client.cas(a, b"new", unique), True)
    expect("cas, used id", client.cas(a, b"old", unique), False)
    expect("get after cas", client.get(a), b"new")
    client.set(number, 10 if isinstance(client, Bmemcached) else b"10")
    expect("incr", client.incr(number, 5), 15)
    expect("decr", client.decr(number, 20), 0)
    expect("incr, far", client.incr(number, 2 ** 31 - 1), 2 ** 31 - 1)
    expect("incr, farther", client.incr(number, 2 ** 31 - 1), 2 ** 32 - 2)
    expect("incr, above 2^32", client.incr(number, 7), 2 ** 32 + 5)
    if client.touch is not None:
        expect("touch", client.touch(a, 100), True)
        expect("touch, missing", client.touch(absent, 100), False)
    many = {prefix + "key-%d" % count: b"v" * count * 37 for count in range(1, 300)}
    expect("set_many", client.set_many(many), True)
    expect("get_many", client.get_many(list(many) + [absent]), many)
    for size in (0, 2047, 65536, len(LARGE)):
        expect("set of %d" % size, client.set(a, LARGE[:size]), True)
        expect("get of %d" % size, client.get(a), LARGE[:size])
    expect("too large", client.refuses(a, TOO_LARGE), True)
    expect("get after too large", client.get(a), LARGE if "LEASED_ROWS" in os.environ else None)
    client.set(a, b"again")
    expect("delete", client.delete(a), True)
    expect("get, deleted", client.get(a), None)
    for key in many:
        client.delete(key)
    client.delete(number)


def work_alone(client, prefix):
    client.set(prefix + "old", b"x")
    client.flush()
    expect("get, flushed", client.get(prefix + "old"), None)
    hits = client.stat("get_hits")
    client.set(prefix + "new", b"x")
    client.get(prefix + "new")
    expect("hits counted", client.stat("get_hits"), hits + 1)
    expect("items counted", client.stat("curr_items") > 0, True)


LIBRARIES = {
    "pymemcache": Pymemcache,
    "pylibmc-text": lambda port: Pylibmc(port, False),
    "pylibmc-binary": lambda port: Pylibmc(port, True),
    "bmemcached": Bmemcached,
}


def main(library, port, prefix, alone=None):
    client = LIBRARIES[library](int(port))
    work(client, prefix)
    if alone:
        work_alone(client, prefix)


main(*sys.argv[1:])
