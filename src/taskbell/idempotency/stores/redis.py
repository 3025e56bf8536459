"""Claims in Redis or Valkey: a hash for each key, and one Lua script for each transition.

`pip install 'taskbell[redis]'`. `RedisStore` is for code that blocks, `AsyncRedisStore` for event loops. A verb is one
round trip. The server runs a script alone, with its own clock (`TIME`), which judges the leases. Each hash has a time
to live, so the server forgets by itself and `sweep` has nothing to do.

The server must be set to keep what it was told: `appendonly yes` with `appendfsync always`, or what was acknowledged
may be lost with the machine; `maxmemory-policy noeviction`, or it may drop claims that live. Replicas are told after
the answer: when one of them takes over, the last claims may be missing, and their work may run again. Where that must
not be, keep claims in a SQL database, which can also commit them together with the effect.

The scripts say what `core.claim` says, and the suite holds them to it. Numbers in Lua are doubles, exact for
microseconds until the year 2255, and are printed with `%.0f` because the usual form would round them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskbell.core.claim import Answer, Bid, Decision, Lost, Mismatch, Record, Replay, Run, Wait
from taskbell.core.instant import Span
from taskbell.idempotency.stores.row import COLUMNS, answer_row, from_row, to_row

try:
    import redis
    import redis.asyncio
except ImportError as error:
    raise ImportError("claims in Redis or Valkey need redis-py: pip install 'taskbell[redis]'") from error

PREFIX = "taskbell:claim:"
FIELDS = COLUMNS[1:]
"""The hash has every column but the key. What is None is not in it."""

_BEGIN = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local names = {FIELDS}
local function read() return redis.call('HMGET', KEYS[1], unpack(names)) end
local stored = read()
local status, holder = stored[1], stored[2]
local fence, lease_expires, expire_at = tonumber(stored[3] or 0), tonumber(stored[4]), tonumber(stored[5])
local function whole(number) return string.format('%.0f', number) end
local function keep(lease_expires, expire_at)
  redis.call('HSET', KEYS[1], 'lease_expires', whole(lease_expires), 'expire_at', whole(expire_at))
  redis.call('PEXPIREAT', KEYS[1], whole(math.ceil(math.max(lease_expires, expire_at) / 1000)))
end
""".replace("FIELDS", ", ".join(f"'{field}'" for field in FIELDS))
_HOLDING = """
if not (status == 'in_progress' and holder == ARGV[1]) then return {'lost', stored} end
"""
# ARGV: attempt_id, lease, retention, and fingerprint if there is one.
_CLAIM = """
local live = status == 'in_progress' and holder ~= '' and now < lease_expires
local lease, word = tonumber(ARGV[2]), 'run'
if status and (expire_at > now or live) then
  if stored[6] and ARGV[4] and stored[6] ~= ARGV[4] then return {'mismatch', stored} end
  if status == 'completed' then return {'replay', stored} end
  if holder == ARGV[1] then
    lease_expires = math.max(lease_expires, now + lease)
    keep(lease_expires, math.max(expire_at, lease_expires))
    return {'run', read()}
  end
  if live then return {'wait', stored, whole(lease_expires - now)} end
  if holder ~= '' then word = 'took_over' end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'status', 'in_progress', 'attempt_id', ARGV[1], 'fence', whole(fence + 1))
if ARGV[4] then redis.call('HSET', KEYS[1], 'fingerprint', ARGV[4]) end
keep(now + lease, now + math.max(lease, tonumber(ARGV[3])))
return {word, read()}
"""
# ARGV: attempt_id, lease.
_RENEW = """
lease_expires = math.max(lease_expires, now + tonumber(ARGV[2]))
keep(lease_expires, math.max(expire_at, lease_expires))
return {'record', read()}
"""
# ARGV: attempt_id, retention; then status and headers if there is an answer; then its body if it was kept.
_FINISHED = """
if status == 'completed' and holder == ARGV[1] then return {'record', stored} end
"""
_FINISH = """
redis.call('HSET', KEYS[1], 'status', 'completed')
if ARGV[3] then redis.call('HSET', KEYS[1], 'answer_status', ARGV[3], 'answer_headers', ARGV[4]) end
if ARGV[5] then redis.call('HSET', KEYS[1], 'answer_body', ARGV[5]) end
keep(lease_expires, math.max(expire_at, now + tonumber(ARGV[2])))
return {'record', read()}
"""
# ARGV: attempt_id.
_RELEASE = """
redis.call('HSET', KEYS[1], 'attempt_id', '')
keep(0, expire_at)
return {'record', read()}
"""
# ARGV: lease_expires, expire_at, then fields and values.
_PUT = """
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
keep(tonumber(ARGV[1]), tonumber(ARGV[2]))
"""
CLAIM = _BEGIN + _CLAIM
RENEW = _BEGIN + _HOLDING + _RENEW
FINISH = _BEGIN + _FINISHED + _HOLDING + _FINISH
RELEASE = _BEGIN + _HOLDING + _RELEASE
PUT = _BEGIN + _PUT

Value = str | bytes | int


def _bid_values(bid: Bid) -> list[Value]:
    values: list[Value] = [bid.attempt_id, bid.lease, bid.retention]
    return values if bid.fingerprint is None else [*values, bid.fingerprint]


def _finish_values(attempt_id: str, retention: Span, answer: Answer | None) -> list[Value]:
    return [attempt_id, retention, *(value for value in answer_row(answer) if value is not None)]


def _put_values(record: Record) -> list[Value]:
    values: list[Value] = [record.lease_expires, record.expire_at]
    for field, value in zip(FIELDS, to_row(record)[1:], strict=True):
        if value is not None:
            values += [field, value]
    return values


def _record(key: str, values: Sequence[bytes | None]) -> Record | None:
    status, attempt_id, fence, lease_expires, expire_at, fingerprint, answer_status, headers, body = values
    if status is None:
        return None
    assert attempt_id is not None
    return from_row(
        (
            key,
            status.decode(),
            attempt_id.decode(),
            int(fence or 0),
            int(lease_expires or 0),
            int(expire_at or 0),
            None if fingerprint is None else fingerprint.decode(),
            None if answer_status is None else int(answer_status),
            headers,
            body,
        )
    )


def _decision(key: str, reply: Sequence[Any]) -> Decision:
    word, values, *rest = reply
    record = _record(key, values)
    assert record is not None
    match word:
        case b"mismatch":
            return Mismatch()
        case b"replay":
            return Replay(record.answer)
        case b"wait":
            return Wait(record.lease_expires, int(rest[0]))
    return Run(record, took_over=word == b"took_over")


def _outcome(key: str, reply: Sequence[Any]) -> Record | Lost:
    word, values = reply
    record = _record(key, values)
    if word == b"lost" or record is None:
        return Lost(record)
    return record


class RedisStore:
    """A `ClaimStore` in a Redis or Valkey server."""

    def __init__(self, url: str, *, prefix: str = PREFIX) -> None:
        """`url`: `redis://host:6379/0`, `rediss://` for TLS, `unix://`. `prefix` begins the name of each hash."""
        self._client = redis.Redis.from_url(url)
        self._prefix = prefix
        scripts = (CLAIM, RENEW, FINISH, RELEASE, PUT)
        self._claim, self._renew, self._finish, self._release, self._put = map(self._client.register_script, scripts)

    def create_schema(self) -> None:
        """Nothing to make."""

    def claim(self, bid: Bid) -> Decision:
        return _decision(bid.key, self._claim(keys=[self._prefix + bid.key], args=_bid_values(bid)))

    def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return _outcome(key, self._renew(keys=[self._prefix + key], args=[attempt_id, lease]))

    def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        values = _finish_values(attempt_id, retention, answer)
        return _outcome(key, self._finish(keys=[self._prefix + key], args=values))

    def release(self, key: str, attempt_id: str) -> Record | Lost:
        return _outcome(key, self._release(keys=[self._prefix + key], args=[attempt_id]))

    def get(self, key: str) -> Record | None:
        values: Any = self._client.hmget(self._prefix + key, list(FIELDS))
        return _record(key, values)

    def put(self, record: Record) -> None:
        """Write a record as it is: to bring claims over from another store, while nobody uses either."""
        self._put(keys=[self._prefix + record.key], args=_put_values(record))

    def sweep(self, limit: int = 1000) -> int:
        """Nothing to do: the server forgets by itself."""
        return 0

    def close(self) -> None:
        self._client.close()


class AsyncRedisStore:
    """An `AsyncClaimStore` in a Redis or Valkey server, on the event loop that uses it."""

    def __init__(self, url: str, *, prefix: str = PREFIX) -> None:
        """As `RedisStore`."""
        self._client = redis.asyncio.Redis.from_url(url)
        self._prefix = prefix
        scripts = (CLAIM, RENEW, FINISH, RELEASE, PUT)
        self._claim, self._renew, self._finish, self._release, self._put = map(self._client.register_script, scripts)

    async def create_schema(self) -> None:
        """Nothing to make."""

    async def claim(self, bid: Bid) -> Decision:
        return _decision(bid.key, await self._claim(keys=[self._prefix + bid.key], args=_bid_values(bid)))

    async def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return _outcome(key, await self._renew(keys=[self._prefix + key], args=[attempt_id, lease]))

    async def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        values = _finish_values(attempt_id, retention, answer)
        return _outcome(key, await self._finish(keys=[self._prefix + key], args=values))

    async def release(self, key: str, attempt_id: str) -> Record | Lost:
        return _outcome(key, await self._release(keys=[self._prefix + key], args=[attempt_id]))

    async def get(self, key: str) -> Record | None:
        values: Any = await self._client.hmget(self._prefix + key, list(FIELDS))
        return _record(key, values)

    async def put(self, record: Record) -> None:
        """Write a record as it is: to bring claims over from another store, while nobody uses either."""
        await self._put(keys=[self._prefix + record.key], args=_put_values(record))

    async def sweep(self, limit: int = 1000) -> int:
        """Nothing to do: the server forgets by itself."""
        return 0

    async def close(self) -> None:
        await self._client.aclose()
