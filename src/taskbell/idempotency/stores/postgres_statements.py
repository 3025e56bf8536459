"""What both PostgreSQL stores say to the server: one table, and a statement for each transition.

Every statement reads `clock_timestamp()` outside of the subquery that locks the row, and so after any wait for it. The
parameters are `$1`, `$2`, ... as the server itself counts them; both drivers take that form.

A first claim inserts, and tells what is there if it cannot: one statement, which locks nothing when the key is done or
taken. Only a claim that would change a record that is already there needs a transaction: make a placeholder, unless
there is a record, so that there is a row to lock; lock it; let `core.claim` decide; write. Nobody ever sees the
placeholder: it counts as absent, so its bid is always given the run and overwrites it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from taskbell.core import claim
from taskbell.core.claim import Bid, Decision, Lost, Record, Status
from taskbell.core.instant import MILLISECOND, Span
from taskbell.idempotency.stores.row import COLUMNS, from_row

TABLE = "taskbell_claims"
LATE: Span = 100 * MILLISECOND
"""A first claim that took longer had waited for a transaction that rolled back, and counts its lease from before."""

_COLUMNS = ", ".join(COLUMNS)
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
  key            text COLLATE "C" PRIMARY KEY,
  status         text NOT NULL CHECK (status IN ('in_progress', 'completed')),
  attempt_id     text NOT NULL,
  fence          bigint NOT NULL CHECK (fence >= 0),
  lease_expires  bigint NOT NULL,
  expire_at      bigint NOT NULL,
  fingerprint    text,
  answer_status  integer CHECK (answer_status IS NULL OR status = 'completed'),
  answer_headers text CHECK ((answer_headers IS NULL) = (answer_status IS NULL)),
  answer_body    bytea
)
"""
_FIRST = f"""
WITH stored AS MATERIALIZED (
  SELECT {_COLUMNS} FROM {{table}} WHERE key = $1
), made AS (
  INSERT INTO {{table}} (key, status, attempt_id, fence, lease_expires, expire_at, fingerprint)
  SELECT $1::text, 'in_progress', $2::text, 1, clock.now + $3::bigint, clock.now + greatest($3::bigint, $4::bigint),
    $5::text
  FROM (SELECT {_NOW} AS now) AS clock
  WHERE NOT EXISTS (SELECT FROM stored)
  ON CONFLICT (key) DO NOTHING
  RETURNING {_COLUMNS}
)
SELECT false, {_NOW}, {_COLUMNS} FROM stored UNION ALL SELECT true, {_NOW}, {_COLUMNS} FROM made
"""  # noqa: S608 - the columns are ours, and the table's name is checked; so it is below.
_PLACEHOLDER = """
INSERT INTO {table} (key, status, attempt_id, fence, lease_expires, expire_at)
VALUES ($1, 'in_progress', '', 0, 0, 0) ON CONFLICT (key) DO NOTHING
"""
_HELD = f"WITH held AS MATERIALIZED (SELECT {_COLUMNS} FROM {{table}} WHERE key = $1 FOR UPDATE)"  # noqa: S608
_LOCK = f"{_HELD} SELECT {_NOW}, {_COLUMNS} FROM held"  # noqa: S608
_MARKS = ", ".join(f"${number}" for number in range(1, len(COLUMNS) + 1))
_WRITE = f"""
INSERT INTO {{table}} ({_COLUMNS}) VALUES ({_MARKS})
ON CONFLICT (key) DO UPDATE SET {", ".join(f"{column} = excluded.{column}" for column in COLUMNS[1:])}
"""  # noqa: S608
# Two rows at most: what was held, and what it became.
_CHANGE = f"""
{_HELD}, judged AS MATERIALIZED (
  SELECT held.*, {_NOW} AS now FROM held
), changed AS (
  UPDATE {{table}} AS claims SET CHANGE FROM judged
  WHERE claims.key = judged.key AND judged.status = 'in_progress' AND judged.attempt_id = $2
  RETURNING {", ".join(f"claims.{column}" for column in COLUMNS)}
)
SELECT false, {_COLUMNS} FROM held UNION ALL SELECT true, {_COLUMNS} FROM changed
"""  # noqa: S608
_RENEW = _CHANGE.replace(
    "CHANGE",
    """lease_expires = greatest(judged.lease_expires, judged.now + $3::bigint),
    expire_at = greatest(judged.expire_at, judged.lease_expires, judged.now + $3::bigint)""",
)
_FINISH = _CHANGE.replace(
    "CHANGE",
    """status = 'completed', expire_at = greatest(judged.expire_at, judged.now + $3::bigint),
    answer_status = $4::integer, answer_headers = $5::text, answer_body = $6::bytea""",
)
_RELEASE = _CHANGE.replace("CHANGE", "attempt_id = '', lease_expires = 0")
# What core.claim.is_expired says; a record that somebody is at is left for the next sweep.
_SWEEP = f"""
WITH expired AS MATERIALIZED (
  SELECT key FROM {{table}}, (SELECT {_NOW} AS now OFFSET 0) AS clock
  WHERE expire_at <= clock.now
    AND NOT (status = 'in_progress' AND attempt_id <> '' AND lease_expires > clock.now)
  ORDER BY expire_at LIMIT $1 FOR UPDATE OF {{table}} SKIP LOCKED
), swept AS (
  DELETE FROM {{table}} WHERE key IN (SELECT key FROM expired) RETURNING 1
)
SELECT count(*) FROM swept
"""  # noqa: S608


class Statements:
    """The statements for one table."""

    def __init__(self, table: str) -> None:
        """`table` may carry a schema: `billing.claims`."""
        if not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*", table):
            raise ValueError(f"table {table!r}: expected letters, digits and underscores, and a dot after the schema")
        self.table = table
        # Two processes that make one table at once would fail in the catalogue. The statements are one transaction.
        self.create = "; ".join(
            (
                f"SELECT pg_advisory_xact_lock(hashtext('{table}'))",
                _TABLE.format(table=table),
                f"CREATE INDEX IF NOT EXISTS {table.rpartition('.')[2]}_expire_at ON {table} (expire_at)",
            )
        )
        self.exists = "SELECT to_regclass($1) IS NOT NULL"
        self.get = f"SELECT {_COLUMNS} FROM {table} WHERE key = $1"  # noqa: S608
        self.first = _FIRST.format(table=table)
        self.placeholder = _PLACEHOLDER.format(table=table)
        self.lock = _LOCK.format(table=table)
        self.write = _WRITE.format(table=table)
        self.renew = _RENEW.format(table=table)
        self.finish = _FINISH.format(table=table)
        self.release = _RELEASE.format(table=table)
        sweep_table = table.rpartition(".")[2]
        self.sweep = _SWEEP.replace("OF {table}", f"OF {sweep_table}").format(table=table)


def first_decision(rows: Sequence[Sequence[Any]], bid: Bid) -> Decision | None:
    """What `Statements.first` found; None: the row must be locked before anything can be said."""
    if not rows:
        return None  # Another made it meanwhile.
    is_made, now, *row = rows[0]
    record = from_row(row)
    if is_made:
        return claim.Run(record) if now - (record.lease_expires - bid.lease) <= LATE else None
    decision = claim.claim(record, bid, now)
    return None if isinstance(decision, claim.Run) else decision


def outcome(rows: Sequence[Sequence[Any]], attempt_id: str, *, finishing: bool = False) -> Record | Lost:
    """What one of the changing statements did."""
    records = {is_changed: from_row(row) for is_changed, *row in rows}
    if True in records:
        return records[True]
    stored = records.get(False)
    if finishing and stored is not None and (stored.status, stored.attempt_id) == (Status.COMPLETED, attempt_id):
        return stored
    return Lost(stored)
