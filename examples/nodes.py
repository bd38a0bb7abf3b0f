"""Two nodes and an origin, for a client that knows nothing of them: see docs/nodes.md.

clients        clients        clients
   |              |              |
+------+       +------+      +--------+        +----------+
| node |       | node |      | origin |--------| database |
+------+       +------+      +--------+        +----------+
   |   reads, writes |            |
   +-----------------+------------+
       deletions before each commit, memberships
"""

from pymemcache.client.hash import HashClient

client = HashClient([("127.0.0.1", 11212), ("127.0.0.1", 11213)])
client.set("user:1", b"Ann", noreply=False)
client.get("user:1")  # b"Ann", as at the other node and at the origin
