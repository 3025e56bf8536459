"""The engines: one module or folder for each database, and the registry that finds them by the scheme of a store's URL.

`memory:` keeps everything in this process; `sqlite:PATH` is one file on this machine. A new engine is a module with
`make_engine(rest, events)` and `check_store(rest)`, one row here, and a ten-line test that runs the suite of
`taskbell.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, Protocol, cast

from taskbell.core.errors import InvalidArgument
from taskbell.engine import Engine
from taskbell.events import Events


class _Row(NamedTuple):
    """One engine: how its URLs look, and where it lives; as text, so that only the one asked for is imported."""

    form: str
    module: str


_ENGINES = {
    "memory": _Row("memory:", "taskbell.engines.memory"),
    "sqlite": _Row("sqlite:PATH", "taskbell.engines.sqlite"),
}
"""The registry, by the scheme of the URL."""


class _EngineModule(Protocol):
    """What the module of an engine offers; `rest` is the URL after its scheme and colon."""

    def make_engine(self, rest: str, events: Events | None) -> Engine: ...

    def check_store(self, rest: str) -> None: ...


def make_engine(url: str, events: Events | None = None) -> Engine:
    """An engine that is not open yet, and tells `events` of its commits. InvalidArgument names the accepted forms."""
    module, rest = _find(url)
    return module.make_engine(rest, events)


async def open_engine(url: str, events: Events | None = None) -> Engine:
    """An open engine; what `Engine.open` raises comes through."""
    engine = make_engine(url, events)
    await engine.open()
    return engine


def check_store(url: str) -> None:
    """Open the store, bring its schema up to date and let go of it, or raise the one sentence that says why not.

    For the moment before a server starts; blocks for some milliseconds, so it is not for a running event loop.
    """
    module, rest = _find(url)
    module.check_store(rest)


def _find(url: str) -> tuple[_EngineModule, str]:
    scheme, colon, rest = url.partition(":")
    row = _ENGINES.get(scheme) if colon else None
    if row is None:
        forms = ", ".join(row.form for row in _ENGINES.values())
        raise InvalidArgument(f"No engine is known for the store {url!r}; accepted are: {forms}.")
    return cast("_EngineModule", import_module(row.module)), rest
