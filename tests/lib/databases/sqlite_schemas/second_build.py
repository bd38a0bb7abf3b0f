"""Executes the statements of cases with another build of SQLite, each on a file with triggers and on one without.

Reads JSON from its input: a list of {"plain", "noted", "schema", "settings", "statements", "snapshots"}; writes a list of
{"outcomes": [[noted, plain], ...], "missed": [...]}.
"""

import json
import sqlite3
import sys

NOTES = (
    "SELECT id, hex(key) || CASE typeof(key) WHEN 'text' THEN '*' ELSE '' END "
    "FROM leased_changes WHERE id > ? ORDER BY id"
)
EQUAL = "INSERT INTO log VALUES (0, 0, 0)"


def opened(path, settings):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = lambda text: "text " + text.decode("latin-1")
    for setting in ["PRAGMA synchronous = OFF", *settings]:
        connection.execute(setting)
    connection.execute(EQUAL)
    return connection


def result_of(connection, sql):
    try:
        return repr(connection.execute(sql).fetchall())
    except sqlite3.Error as error:
        return "error: %s" % error


def outcome(connection, sql):
    result = result_of(connection, sql)
    return [result, *connection.execute("SELECT changes(), last_insert_rowid()").fetchone()]


def plan(connection, sql):
    """Returns the order in which a statement visits rows: a result may depend on it."""
    if not sql.startswith(("UPDATE", "DELETE", "INSERT")):
        return ""
    steps = result_of(connection, "EXPLAIN QUERY PLAN " + sql).replace("COVERING ", "").split("), (")
    return steps[0].split(", ")[-1]


def snapshot(connection, queries):
    rows = {}
    for query in queries:
        for contents, *keys in connection.execute(query):
            count, _ = rows.get((query, contents), (0, keys))
            rows[query, contents] = (count + 1, [key[len("text "):] for key in keys])
    return rows


def missed(before, after, notes):
    beginnings = [note[:-1] for note in notes if note.endswith("*")]
    for row in {*before, *after}:
        if before.get(row) == after.get(row):
            continue
        for key in (before.get(row) or after.get(row))[1]:
            if key not in notes and not any(key.startswith(each) for each in beginnings):
                yield "%s of %s" % (key, row[1])


def play(case):
    plain, noted = [opened(case[name], case["settings"]) for name in ("plain", "noted")]
    version = lambda: noted.execute("PRAGMA schema_version").fetchone()[0]
    first = version()
    before = snapshot(noted, case["snapshots"])
    last = max([0, *(row[0] for row in noted.execute(NOTES, [0]))])
    outcomes, lost = [], []
    for sql in case["statements"]:
        visited = plan(noted, sql)
        if visited != plan(plain, sql):
            continue
        # With triggers, rows are visited in the order of the primary key or the row number.
        if " USING INDEX " in visited and "=?)" not in visited:
            continue
        if noted.in_transaction and " DROP COLUMN " in sql:
            continue
        with_triggers = outcome(noted, sql)
        if "error in trigger leased_change" in with_triggers[0]:
            continue
        without = outcome(plain, sql)
        if "cannot store" in with_triggers[0] and with_triggers != without:
            return {"outcomes": outcomes, "missed": lost}
        # With recursive triggers, SQLite checks constraints again after a REPLACE that fires any.
        recursive = "PRAGMA recursive_triggers = 1" in case["settings"]
        if recursive and " constraint failed" in with_triggers[0] and with_triggers[0] != without[0]:
            return {"outcomes": outcomes, "missed": lost}
        if "FOREIGN KEY constraint failed" in with_triggers[0]:
            with_triggers[2] = without[2] = 0
            for connection in (plain, noted):
                connection.execute(EQUAL)
        outcomes.append([[sql, *map(str, with_triggers)], [sql, *map(str, without)]])
        # Without triggers, SQLite keeps the rows of an INSERT OR ROLLBACK before one whose row number is none.
        if with_triggers != without or ("datatype mismatch" in without[0] and "ROLLBACK" in sql + case["schema"]):
            return {"outcomes": outcomes, "missed": lost}
        if noted.in_transaction or version() != first:
            continue
        after = snapshot(noted, case["snapshots"])
        notes = noted.execute(NOTES, [last]).fetchall()
        last = notes[-1][0] if notes else last
        lost += missed(before, after, [note[len("text "):] for _, note in notes])
        before = after
    for table in ("p", "c", "log"):
        rows = [sorted(map(repr, one.execute("SELECT * FROM " + table))) for one in (noted, plain)]
        outcomes.append(rows)
    return {"outcomes": outcomes, "missed": lost}


json.dump([play(case) for case in json.load(sys.stdin)], sys.stdout)
