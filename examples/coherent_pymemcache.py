"""Leases, locks and update tokens with pymemcache: a cache that keeps its database's committed values.

    cache = CoherentClient(("127.0.0.1", 11211), timeout=5)   # a server started with -z 3333
    article = cache.get_or_load("article:1", load_article, expire=60)
    cache.put(["article:1"], lambda: commit(new_title))
    with cache.with_lock("account", wait=5) as lock: ...

The rules that these methods keep are in docs/leases.md. A client is for one thread, as pymemcache's is.
"""
import contextlib
import time
import uuid

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError, MemcacheUnexpectedCloseError

FAILURES = (MemcacheError, OSError)


class Locked(Exception):
    """Another connection holds the lock of the key."""


class LockLost(Exception):
    """The connection that held the lock has ended, and the lock with it."""


class NotConfirmed(Exception):
    """The commit is done, but not confirmed by the cache: pass args[0] to `invalidate` (keys), or `release` (tokens)."""


class OutcomeUnknown(Exception):
    """The commit failed and may have taken effect: `tokens` stay out until `release(tokens)`, once the outcome is known."""

    def __init__(self, tokens):
        super().__init__("update tokens are kept for: %s" % ", ".join(key for key, _ in tokens))
        self.tokens = tokens


class Lease(int):
    """A reply of getss without a value. 0: the lease is ours, else another client has it for so many seconds."""


class LeaseSerde:
    """Values pass through `serde`; what has the server's lease flag is a lease."""

    def __init__(self, serde, lease_flag):
        self.serde, self.lease_flag, self.serialize = serde, lease_flag, serde.serialize

    def deserialize(self, key, value, flags):
        return Lease(int(value)) if flags == self.lease_flag else self.serde.deserialize(key, value, flags)


def attempts(limit):
    """Yields for each attempt, with growing pauses between them, for `limit` seconds."""
    end, pause = time.monotonic() + limit, 0.01
    while True:
        yield
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.5)


class CoherentClient(Client):
    """A pymemcache client with three flows. `lease_flag`: the server's -z."""

    def __init__(self, server, lease_flag=0x3333, **options):
        options.setdefault("timeout", 5)
        super().__init__(server, **options)
        self._options = options
        self.serde = LeaseSerde(self.serde, lease_flag)

    def get_or_load(self, key, load, expire=0, lease=10, wait=2):
        """The cached value, or the result of `load()`, which is kept for `expire` seconds if nobody has changed it since.

        One client loads; others wait for it, at most `wait` seconds. `lease`: seconds in which `load` should be done.
        """
        for _ in attempts(wait):
            try:
                found, cas = self._fetch_cmd(b"getss %d" % lease, [key], True)[key]
            except FAILURES:
                break
            if not isinstance(found, Lease):
                return found
            if found == 0:
                return self._load_and_fill(key, load, cas, expire)
        return load()  # without a lease of our own nothing may be kept

    def put(self, keys, commit, tokens=False, rolled_back=(), limit=5):
        """Calls `commit()` and returns its result; from then on no reader finds an older value of `keys`.

        With `tokens` (--state-dir) the keys are uncacheable while the commit runs, so a reader never sees a value older
        than one it has seen. `rolled_back`: exceptions which prove that nothing was committed; after any other one the
        tokens are kept. `limit`: seconds for which the cache is asked again.
        """
        if tokens:
            return self._put_with_tokens(sorted(set(keys)), commit, rolled_back, limit)
        try:
            result = commit()
        except BaseException:
            with contextlib.suppress(NotConfirmed):
                self.invalidate(keys, limit)  # it may have taken effect all the same
            raise
        self.invalidate(keys, limit)
        return result

    def invalidate(self, keys, limit=5):
        """Removes keys and all rights to fill them. Call it after each commit. Raises NotConfirmed."""
        self._until_confirmed(keys, lambda key: self._ask(b"deletess 1 %s", key), limit)

    def release(self, tokens, limit=5):
        """Ends update tokens whose commit has an outcome. Raises NotConfirmed."""
        self._until_confirmed(tokens, lambda token: self._ask(b"token release %s %s", *token), limit)

    @contextlib.contextmanager
    def with_lock(self, key, wait=0):
        """Holds the lock of a key, which is created if it is missing, on a connection of its own.

        Yields a client whose changes of the key are allowed, with the fencing number in `fence`. When its connection
        ends, the lock is free: the client raises LockLost then, and does not connect again. Raises Locked.
        """
        options = dict(self._options, timeout=self._options["timeout"] + wait, lease_flag=self.serde.lease_flag)
        section = LockedSection(self.server, **options)
        try:
            section._ask(b"add %s 0 0 0\r\n", key)
            reply = section._ask(b"lock %%s %d fence" % (wait * 1000), key)
            if not reply.startswith(b"OK "):
                raise Locked(key)
            section.fence = int(reply[3:])
            yield section
            section._ask(b"unlock %s", key)
        finally:
            section.close()  # frees the lock in any case

    def _load_and_fill(self, key, load, cas, expire):
        value, fill_expire = b"", -1  # after a failed load: ends the lease
        try:
            value = load()
            fill_expire = expire
            return value
        finally:
            with contextlib.suppress(*FAILURES):  # refused if the key was invalidated meanwhile
                self.cas(key, value, cas, expire=fill_expire, noreply=False)

    def _put_with_tokens(self, keys, commit, rolled_back, limit):
        owner, taken = str(uuid.uuid4()), []
        try:
            for key in keys:
                taken.append((key, self._take_token(key, owner, limit)))
        except BaseException:
            with contextlib.suppress(NotConfirmed):
                self.release(taken, limit)
            raise
        try:
            result = commit()
        except tuple(rolled_back):
            self.release(taken, limit)
            raise
        except BaseException as error:
            raise OutcomeUnknown(taken) from error
        self.release(taken, limit)
        return result

    def _take_token(self, key, owner, limit):
        """Asks with the same tag again: after a lost reply it is the same token."""
        for _ in attempts(limit):
            with contextlib.suppress(MemcacheUnexpectedCloseError, OSError):
                reply = self._ask(b"token get %s %s", key, owner)
                if reply.startswith(b"TOKEN "):
                    return reply[6:].decode()
        raise Locked(key)

    def _until_confirmed(self, items, ask, limit):
        left = list(items)
        for _ in attempts(limit):
            for item in list(left):
                with contextlib.suppress(*FAILURES):
                    if ask(item).startswith((b"DELETED", b"NOT_FOUND", b"OK")):
                        left.remove(item)
            if not left:
                return
        raise NotConfirmed(left)

    def _ask(self, line, *words):
        """Sends a command line, whose first word is a key, and returns the line of its reply."""
        text = line % (self.check_key(words[0]), *(word.encode() for word in words[1:]))
        return self._misc_cmd([text + b"\r\n"], line.split(b" ")[0], False)[0]


class LockedSection(CoherentClient):
    """The client of a lock: connects once."""

    fence = None

    def _connect(self):
        if self.fence is not None:
            raise LockLost()
        super()._connect()
