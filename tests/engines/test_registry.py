from __future__ import annotations

from pathlib import Path

import pytest

from taskbell.core.errors import InvalidArgument
from taskbell.engines import check_store, make_engine, open_engine
from taskbell.engines.memory import MemoryEngine
from taskbell.engines.sqlite import SqliteEngine


def test_the_scheme_of_a_url_picks_the_engine() -> None:
    """One row of the registry each."""
    assert isinstance(make_engine("memory:"), MemoryEngine)
    assert isinstance(make_engine("sqlite:some/where.db"), SqliteEngine)


@pytest.mark.parametrize("url", ["", "taskbell.db", "redis://127.0.0.1", "SQLITE:x", ":", "C:\\taskbell.db"])
def test_an_unknown_scheme_is_refused_with_those_that_are_known(url: str) -> None:
    """Before anything is opened, by each of the three doors."""
    for door in (make_engine, check_store):
        with pytest.raises(InvalidArgument) as caught:
            door(url)
        assert caught.value.message == f"No engine is known for the store {url!r}; accepted are: memory:, sqlite:PATH."


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite:", "The store sqlite: needs a file, as in sqlite:taskbell.db."),
        ("memory:x", "The store memory: takes nothing after its colon, and was given 'x'."),
    ],
)
def test_what_follows_the_scheme_is_checked(url: str, sentence: str) -> None:
    """Each engine says what it needs."""
    for door in (make_engine, check_store):
        with pytest.raises(InvalidArgument) as caught:
            door(url)
        assert caught.value.message == sentence


async def test_opening_by_url(tmp_path: Path) -> None:
    """The engine comes open, and the file is where the URL says."""
    engine = await open_engine(f"sqlite:{tmp_path}/store.db")
    assert await engine.all_queues() == []
    await engine.close()

    assert (tmp_path / "store.db").exists()
    check_store(f"sqlite:{tmp_path}/store.db")
    check_store("memory:")
