"""Drives a server that asks for passwords: auth.py CLIENT PORT USER PASSWORD. Ends with a traceback on a surprise."""
import sys

ADDRESS = "127.0.0.1"


def pylibmc_client(port, user, password):
    import pylibmc

    client = pylibmc.Client(["%s:%d" % (ADDRESS, port)], binary=True, username=user, password=password)
    return client.set, client.get


def bmemcached_client(port, user, password):
    import bmemcached

    client = bmemcached.Client(("%s:%d" % (ADDRESS, port),), user, password, socket_timeout=10)
    return client.set, client.get


def text_client(port, user, password):
    """The client of the text protocol that everybody has: the first command is a set."""
    from pymemcache.client.base import Client

    client = Client((ADDRESS, port), timeout=10)
    assert client.set("login", "%s %s" % (user, password), noreply=False), "refused"
    return (lambda key, value: client.set(key, value, noreply=False)), (lambda key: (client.get(key) or b"").decode())


CLIENTS = {"pylibmc": pylibmc_client, "bmemcached": bmemcached_client, "pymemcache": text_client}


def main():
    name, port, user, password = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    put, get = CLIENTS[name](port, user, password)
    for index in range(50):
        key = "auth-%s-%d" % (name, index)
        assert put(key, "value %d" % index), key
        assert get(key) == "value %d" % index, key
    try:
        put, get = CLIENTS[name](port, user, password + "x")
        stored = put("auth-intruder", "x")
    except Exception:
        return
    assert not stored, "stored with a wrong password"


main()
