"""Drives a server with pymemcache as an application would: text_clients.py HOST PORT. Ends with status 1 on a surprise."""
import socket
import sys

from pymemcache.client.base import Client

host, port = sys.argv[1], int(sys.argv[2])
client = Client((host, port), timeout=10, connect_timeout=10)


def expect(name, actual, expected):
    if actual != expected:
        sys.exit("%s: %r instead of %r" % (name, actual, expected))


client.flush_all()
expect("get, missing", client.get("absent"), None)
expect("set", client.set("a", "1", noreply=False), True)
expect("get", client.get("a"), b"1")
expect("add, present", client.add("a", "2", noreply=False), False)
expect("replace", client.replace("a", "10", noreply=False), True)
expect("incr", client.incr("a", 5), 15)
expect("decr", client.decr("a", 20), 0)
expect("append", client.append("a", "x", noreply=False), True)
expect("prepend", client.prepend("a", "y", noreply=False), True)
expect("get after append and prepend", client.get("a"), b"y0 x")
value, unique = client.gets("a")
expect("cas, right id", client.cas("a", "new", unique), True)
expect("cas, used id", client.cas("a", "old", unique), False)
expect("cas, missing", client.cas("absent", "old", unique), None)
expect("touch", client.touch("a", 100, noreply=False), True)
expect("delete", client.delete("a", noreply=False), True)
expect("delete, missing", client.delete("a", noreply=False), False)
many = {"key-%d" % number: b"v" * number * 37 for number in range(300)}
expect("set_many", client.set_many(many, noreply=False), [])
expect("get_many", client.get_many(list(many)), many)
large = bytes(number * 7 % 256 for number in range(1000 * 1000))
expect("set, large", client.set("large", large, noreply=False), True)
expect("get, large", client.get("large"), large)
expect("version", client.version().split(b"-")[0], b"1.6.45")
stats = client.stats()
expect("stats curr_items", stats[b"curr_items"], len(many) + 1)
client.close()

raw = socket.create_connection((host, port), timeout=10)
raw.sendall(b"set r 7 0 3\r\nabc\r\nget r absent r\r\nbogus\r\n")
reply = b""
wanted = b"STORED\r\nVALUE r 7 3\r\nabc\r\nVALUE r 7 3\r\nabc\r\nEND\r\nERROR\r\n"
while len(reply) < len(wanted):
    piece = raw.recv(4096)
    if not piece:
        break
    reply += piece
expect("raw session", reply, wanted)
print("pymemcache and a raw session: ok")
