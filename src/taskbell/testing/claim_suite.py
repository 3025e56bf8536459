"""The claim-store suite: every sentence of `taskbell.idempotency.store`, as tests that any store can be put through.

To judge a store, subclass the suite in a test module and give it two fixtures:

    class TestMyStore(ClaimStoreSuite):
        @pytest.fixture
        def make_store(self, database):
            return lambda: MyStore(database)          # each call another client of the same records

        @pytest.fixture
        def put(self, make_store):
            async def put(record): ...                # write a record as it is, over what is there
            return put

Stores may block or be asynchronous. Time passes by `put`: a record whose instants are moved back looks as it would
later, so nothing is waited for. Needs pytest and pytest-asyncio. For readable failures call
`pytest.register_assert_rewrite("taskbell.testing")` in a conftest before anything imports it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from taskbell.idempotency.store import AsyncClaimStore
from taskbell.testing.claim_contention import Contending
from taskbell.testing.claim_samples import MakeClaimStore, Put, Stage
from taskbell.testing.claim_verbs import Claiming, Holding, KeepingAnswers, ReadingSampleRecords, SweepingClaims


@pytest.mark.asyncio
class ClaimStoreSuite(Claiming, Holding, KeepingAnswers, ReadingSampleRecords, SweepingClaims, Contending):
    """What every claim store promises."""

    @pytest_asyncio.fixture
    async def stage(self, make_store: MakeClaimStore, put: Put) -> AsyncIterator[Stage]:
        """Two clients of one empty store, and a way to let time pass."""
        stage = Stage(make_store, put)
        await stage.store.create_schema()
        yield stage
        await stage.close()

    @pytest.fixture
    def store(self, stage: Stage) -> AsyncClaimStore:
        """A client of the store."""
        return stage.store
