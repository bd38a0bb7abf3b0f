"""Writes or reads keys of several servers through libmemcached's weighted ketama.

Usage: ketama_values.py set|get <host>:<port>:<weight>... < keys, one a line

`set` stores "python <key>"; `get` prints the values, one a line.
"""

import sys

import pylibmc

client = pylibmc.Client(sys.argv[2:], behaviors={"ketama_weighted": True})
for key in sys.stdin.read().split():
    if sys.argv[1] == "set":
        client.set(key, "python " + key)
    else:
        print(client.get(key).decode())
