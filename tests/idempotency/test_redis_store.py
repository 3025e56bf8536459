"""What the Redis stores promise besides: times to live, exact numbers, records of others, forgotten scripts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import redis

from taskbell.core.claim import Record, Replay, Run, Status, Wait
from taskbell.idempotency import DAY, HOUR, Answer, Bid
from taskbell.idempotency.stores.redis import PREFIX, RedisStore


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def claims(redis_url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_url)) as store:
        yield store


@pytest.fixture
def server(redis_url: str) -> Iterator[Any]:
    """A client that is not ours."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


def test_the_server_forgets_a_record_when_it_has_expired(claims: RedisStore, server: Any, key: str) -> None:
    """At its expire_at, rounded up to the server's milliseconds, whichever verb wrote it last; and not before."""
    verbs: list[Callable[[], object]] = [
        lambda: claims.claim(Bid(key, "a", HOUR, DAY)),
        lambda: claims.claim(Bid(key, "a", HOUR + 1, DAY)),
        lambda: claims.renew(key, "a", 2 * DAY),
        lambda: claims.release(key, "a"),
        lambda: claims.claim(Bid(key, "b", HOUR, DAY)),
        lambda: claims.finish(key, "b", 3 * DAY, Answer(200)),
    ]
    for verb in verbs:
        verb()
        record = claims.get(key)
        assert record is not None
        assert server.pexpiretime(PREFIX + key) == -(-record.expire_at // 1000)


def test_a_live_lease_outlives_its_expire_at(claims: RedisStore, key: str) -> None:
    """Whatever an old record says, nobody else may run."""
    claims.claim(Bid(key, "a", HOUR, DAY))
    record = claims.get(key)
    assert record is not None
    claims.put(replace(record, expire_at=1))

    assert isinstance(claims.claim(Bid(key, "b", HOUR, DAY)), Wait)


def test_numbers_are_kept_to_the_microsecond(claims: RedisStore, key: str) -> None:
    """Lua's usual form of a number has fourteen digits, and an instant sixteen."""
    lease = 123_456_789_012_345
    decision = claims.claim(Bid(key, "a", lease, 2 * lease + 1))

    assert isinstance(decision, Run)
    assert decision.record.expire_at - decision.record.lease_expires == lease + 1
    assert claims.get(key) == decision.record
    waits = claims.claim(Bid(key, "b", HOUR, DAY))
    assert isinstance(waits, Wait)
    assert waits.until == decision.record.lease_expires


def test_a_record_without_fence_counts(claims: RedisStore, server: Any, key: str) -> None:
    """As the guide's sample would write it into a hash."""
    fields = {"status": "in_progress", "attempt_id": "sample", "lease_expires": 1, "expire_at": 4_000_000_000_000_000}
    server.hset(PREFIX + key, mapping=fields)

    record = claims.get(key)
    assert record == Record(key, Status.IN_PROGRESS, "sample", 1, 4_000_000_000_000_000)
    decision = claims.claim(Bid(key, "a", HOUR, DAY))
    assert isinstance(decision, Run)
    assert decision.took_over
    assert decision.record.fence == 1


def test_a_server_that_forgot_the_scripts_is_told_again(claims: RedisStore, server: Any, key: str) -> None:
    """After a restart, or when another takes over."""
    claims.claim(Bid(key, "a", HOUR, DAY))
    server.script_flush()

    assert isinstance(claims.finish(key, "a", DAY, Answer(200)), Record)
    assert claims.claim(Bid(key, "b", HOUR, DAY)) == Replay(Answer(200))


def test_two_prefixes_of_one_server_do_not_meet(claims: RedisStore, redis_url: str, key: str) -> None:
    """One for each service that keeps its claims there."""
    with closing(RedisStore(redis_url, prefix="other:")) as other:
        assert isinstance(claims.claim(Bid(key, "a", HOUR, DAY)), Run)
        assert isinstance(other.claim(Bid(key, "b", HOUR, DAY)), Run)
