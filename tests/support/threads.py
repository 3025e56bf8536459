"""Running several things at once in threads, so that none of their failures is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait


def run_all(works: Sequence[Callable[[], None]]) -> None:
    """Run each in a thread of its own, wait for all, and raise what the first of them raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
        wait(futures)
    for future in futures:
        future.result()
