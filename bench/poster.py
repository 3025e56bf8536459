"""The HTTP client alone: `python -m bench.poster busy URL COUNT` prints posts a second from 64 workers,
`... idle URL COUNT GAP` the median milliseconds of one post at a time with a pause before each.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

import uvloop
from pyreqwest.client import Client, ClientBuilder

BODY = b"a" * 100
WORKERS = 64


async def busy(client: Client, url: str, count: int) -> float:
    """Posts a second at full speed."""
    numbers = iter(range(count))

    async def work() -> None:
        for _ in numbers:
            await client.post(url).body_bytes(BODY).build().send()

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return count / (time.perf_counter() - start)


async def idle(client: Client, url: str, count: int, gap: float) -> float:
    """The median of a lonely post, in milliseconds."""
    spent = []
    for _ in range(count):
        await asyncio.sleep(gap)
        start = time.perf_counter()
        await client.post(url).body_bytes(BODY).build().send()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent) * 1000


async def main(mode: str, url: str, count: int, gap: float) -> None:
    """Print one figure."""
    async with ClientBuilder().http1_only().build() as client:
        print(await (busy(client, url, count) if mode == "busy" else idle(client, url, count, gap)))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else 0.0))
