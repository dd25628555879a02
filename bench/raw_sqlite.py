"""The floor on SQLite: the least SQL that is still a queue, in one thread, with nothing around it."""

from __future__ import annotations

import time

import apsw

from bench.timing import Burst, Turns

TABLES = """
pragma journal_mode = wal;
pragma synchronous = full;
create table item (id integer primary key autoincrement, state integer not null default 0, payload text not null);
create index item_ready on item (id) where state = 0;
create table result (id integer primary key, result text not null);
"""
CLAIM = """
update item set state = 1
 where id in (select id from item where state = 0 order by id limit ?)
returning id, payload
"""


def burst(at: str, items: int, batch: int) -> Burst:
    """The batch is also the size of the lists put in, to show what a commit alone costs."""
    db = apsw.Connection(at)
    db.execute(TABLES).fetchall()
    began = time.perf_counter()
    for start in range(0, items, batch):
        part = range(start, min(start + batch, items))
        with db:
            db.executemany(
                "insert into item (payload) values (?)", [(f'{{"n":{n}}}',) for n in part]
            )
    filled = time.perf_counter()
    drained = 0
    while drained < items:
        with db:
            claimed = db.execute(CLAIM, (batch,)).fetchall()
        assert claimed, f"{items - drained} items are missing"
        with db:
            db.executemany("delete from item where id = ?", [(id,) for id, _ in claimed])
        drained += len(claimed)
    ended = time.perf_counter()
    db.close()
    return Burst(filled - began, ended - filled)


def one_by_one(at: str, items: int) -> Turns:
    """Nobody waits for anybody: three commits and a read."""
    turns = Turns()
    db = apsw.Connection(at)
    db.execute(TABLES).fetchall()
    for n in range(items):
        turns.submit()
        with db:
            db.execute("insert into item (payload) values (?)", (f'{{"n":{n}}}',))
        with db:
            [(id, _)] = db.execute(CLAIM, (1,)).fetchall()
        turns.begun()
        with db:
            db.execute("insert into result values (?, '1')", (id,))
            db.execute("delete from item where id = ?", (id,))
        assert db.execute("select result from result where id = ?", (id,)).fetchall()
        turns.seen()
    db.close()
    return turns
