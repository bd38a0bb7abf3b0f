"""Asks for the keys key0, key1, … through libmemcached's weighted ketama.

Usage: ketama.py <count> <host>:<port>:<weight>...
"""

import sys

import pylibmc

client = pylibmc.Client(sys.argv[2:], behaviors={"ketama_weighted": True})
for number in range(int(sys.argv[1])):
    client.get("key%d" % number)
