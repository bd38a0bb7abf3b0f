"""Sessions that no library would hold, over plain sockets: raw_sessions.py PORT PREFIX [alone]. Ends with status 1 on a surprise."""
import socket
import struct
import sys

PORT, PREFIX = int(sys.argv[1]), sys.argv[2].encode()

GET, SET, NOOP, GETK, GETKQ, SETQ, TOUCH, GAT = 0x00, 0x01, 0x0A, 0x0C, 0x0D, 0x11, 0x1C, 0x1D
LOCK, UNLOCK, UNLOCK_ALL, LAG, RAU = 0x40, 0x42, 0x44, 0x46, 0x4A
OK, NOT_FOUND, LOCKED, NOT_LOCKED = 0x00, 0x01, 0x10, 0x11


def expect(name, actual, expected):
    if actual != expected:
        sys.exit("%s: %r instead of %r" % (name, actual, expected))


class Session:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT), timeout=10)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                sys.exit("closed after %r" % data)
            data += piece
        return data

    def reply(self):
        """Opcode, status, key and value of the next reply."""
        header = self.receive(24)
        _, opcode, key_length, extras, _, status, length, _, _ = struct.unpack(">BBHBBHIIQ", header)
        body = self.receive(length)[extras:]
        return opcode, status, body[:key_length], body[key_length:]

    def ask(self, opcode, key=b"", value=b"", extras=b""):
        """Status of the reply, and its value where that is no text of an error."""
        self.send(request(opcode, key, value, extras))
        _, status, _, value = self.reply()
        return (status, value) if status == OK else status


def request(opcode, key=b"", value=b"", extras=b""):
    length = len(extras) + len(key) + len(value)
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, length, 0, 0) + extras + key + value


def store(key, value, opcode=SET):
    return request(opcode, key, value, struct.pack(">II", 0, 0))


def text():
    session = Session()
    key = PREFIX + b"r"
    session.send(b"set %s 7 0 3\r\nabc\r\nget %s absent %s\r\nbogus\r\n" % (key, key, key))
    value = b"VALUE %s 7 3\r\nabc\r\n" % key
    wanted = b"STORED\r\n" + value + value + b"END\r\nERROR\r\n"
    expect("text", session.receive(len(wanted)), wanted)


def quiet():
    """Keys of any bytes, quietly and in a pipeline."""
    session = Session()
    keys = [PREFIX + bytes([number, 0, 13, 10, 32]) for number in range(256)]
    session.send(b"".join(store(key, key * 9, SETQ) for key in keys) + request(NOOP))
    expect("SetQ", session.reply(), (NOOP, OK, b"", b""))
    asked = b"".join(request(GETKQ, key) + request(GETKQ, key + b"?") for key in keys)
    session.send(asked + request(NOOP))
    for key in keys:
        expect("GetKQ", session.reply(), (GETKQ, OK, key, key * 9))
    expect("Noop", session.reply(), (NOOP, OK, b"", b""))
    soon = struct.pack(">I", 100)
    expect("Touch", session.ask(TOUCH, keys[0], extras=soon), (OK, b""))
    expect("GaT", session.ask(GAT, keys[0], extras=soon), (OK, keys[0] * 9))


def locks():
    holder, other = Session(), Session()
    key, second, absent = PREFIX + b"lock", PREFIX + b"second", PREFIX + b"none"
    for each in (key, second):
        holder.send(store(each, b"1"))
        holder.reply()
    eight = struct.pack(">II", 0, 0)
    expect("Lock", holder.ask(LOCK, key), (OK, b""))
    expect("Lock, missing", holder.ask(LOCK, absent), NOT_FOUND)
    expect("Lock, held", other.ask(LOCK, key), LOCKED)
    expect("Set by another", other.ask(SET, key, b"2", eight), LOCKED)
    expect("Get by another", other.ask(GET, key), (OK, b"1"))
    expect("Unlock by another", other.ask(UNLOCK, key), NOT_LOCKED)
    expect("RaU by another", other.ask(RAU, key, b"2", eight), NOT_LOCKED)
    expect("Set by the holder", holder.ask(SET, key, b"3", eight), (OK, b""))
    expect("RaU", holder.ask(RAU, key, b"4", eight), (OK, b""))
    expect("LaG", other.ask(LAG, key), (OK, b"4"))
    expect("LaG, held", holder.ask(LAG, key), LOCKED)
    expect("Unlock", other.ask(UNLOCK, key), (OK, b""))
    for each in (key, second):
        expect("Lock again", holder.ask(LOCK, each), (OK, b""))
    expect("UnlockAll", holder.ask(UNLOCK_ALL), (OK, b""))
    expect("Lock when free", other.ask(LOCK, key), (OK, b""))
    other.socket.close()
    while holder.ask(LOCK, key) == LOCKED:
        pass


text()
quiet()
locks()
