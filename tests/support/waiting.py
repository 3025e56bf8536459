"""Waiting for what another process does: a look every few milliseconds, up to a timeout."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

LOOK_EVERY = 0.02
_NEVER = threading.Event()


def wait_until(is_so: Callable[[], bool], what: str, timeout: float = 10) -> float:
    """Return how many seconds it took until `is_so()`; fail, saying `what` did not happen, when the timeout passes."""
    start = time.monotonic()
    while not is_so():
        assert time.monotonic() - start < timeout, f"not within {timeout} s: {what}"
        _NEVER.wait(LOOK_EVERY)
    return time.monotonic() - start


async def until(is_so: Callable[[], bool], what: str, timeout: float = 10) -> None:
    """The same inside an event loop that must go on; what blocks is for `asyncio.to_thread(wait_until, ...)`."""
    start = time.monotonic()
    while not is_so():
        assert time.monotonic() - start < timeout, f"not within {timeout} s: {what}"
        await asyncio.sleep(0.001)
