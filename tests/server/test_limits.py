"""Too much at once: too large, too many, all for one name. What can be taken is, what cannot is refused in words."""

from __future__ import annotations

import gzip
import random
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import grpc
import pytest

from tests.support.process import MEBIBYTE, resident_bytes
from tests.support.receiver import Receiver
from tests.support.rest import RestClient, http_task, queue_name, task_name
from tests.support.rpc import RpcClient, create_request
from tests.support.server import ServerProcess
from tests.support.threads import run_all

LARGE = 30 * MEBIBYTE
GROWTH_MAX = 24 * MEBIBYTE
"""Less than one of the refused requests; the server's own ups and downs are within it."""
ID = re.compile(r"[A-Za-z0-9_-]{1,500}\Z")


@pytest.fixture(scope="module")
def rpc(server: ServerProcess) -> Iterator[RpcClient]:
    """A gRPC client."""
    with RpcClient(server.address) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def queue(server: ServerProcess) -> None:
    """A queue that keeps what it is given."""
    with RestClient(server.address) as client:
        client.create_queue("kept")
        client.do("pause", queue_name("kept"))


def _grown(server: ServerProcess, ask: Callable[[], None], times: int = 5) -> int:
    """How much larger the server ever was while it was asked so often; the first time is not counted."""
    ask()
    before = resident_bytes(server.pid)
    most = before
    done = threading.Event()

    def sample() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, resident_bytes(server.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        for _ in range(times):
            ask()
    finally:
        done.set()
        sampler.join()
    print(f"grew by {(most - before) / MEBIBYTE:.1f} MiB")  # noqa: T201 - the figure itself
    return most - before


def _raw_status(server: ServerProcess, head: str, chunks: Iterator[bytes]) -> tuple[int, bytes]:
    """Send a request piece by piece until an answer comes; its status and everything after the status line."""
    with socket.create_connection((server.host, server.port), timeout=20) as connection:
        connection.sendall(f"{head}\r\nHost: {server.address}\r\n\r\n".encode())
        connection.setblocking(False)
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                try:
                    rest = rest[connection.send(rest) :]
                except BlockingIOError:
                    if _is_readable(connection):
                        break
                except (BrokenPipeError, ConnectionResetError):
                    break
            if _is_readable(connection, 0):
                break
        connection.settimeout(20)
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.rstrip().endswith(b"}"):
            more = connection.recv(65536)
            if not more:
                break
            answer += more
    line, _, rest_of_it = answer.partition(b"\r\n")
    assert line, "closed without an answer"
    return int(line.split()[1]), rest_of_it


def _is_readable(connection: socket.socket, seconds: float = 0.05) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


def test_a_request_of_30_mb_is_refused_over_rest(server: ServerProcess) -> None:
    """With Google's error body, before it is read, and without growth."""
    body = b'{"task":{"httpRequest":{"url":"http://127.0.0.1:9/","body":"' + b"A" * LARGE + b'"}}}'
    head = (
        f"POST /v2/{queue_name('kept')}/tasks HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )

    def ask() -> None:
        pieces = (body[start : start + 65536] for start in range(0, len(body), 65536))
        status, rest = _raw_status(server, head, pieces)
        assert status == 400
        assert b"INVALID_ARGUMENT" in rest

    assert _grown(server, ask) < GROWTH_MAX


def test_a_chunked_request_without_end_is_refused(server: ServerProcess) -> None:
    """Its size is not announced, so it is refused as soon as it is too large."""
    head = (
        f"POST /v2/{queue_name('kept')}/tasks HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    )
    piece = b"10000\r\n" + b"A" * 0x10000 + b"\r\n"

    def ask() -> None:
        status, rest = _raw_status(server, head, (piece for _ in range(10 * LARGE // len(piece))))
        assert status == 400
        assert b"INVALID_ARGUMENT" in rest

    assert _grown(server, ask) < GROWTH_MAX


def test_a_gzip_bomb_is_refused_over_rest(server: ServerProcess, client: RestClient) -> None:
    """A few kilobytes that would be hundreds of megabytes are inflated up to the limit and no further."""
    bomb = gzip.compress(b'{"task":{"name":"' + b"A" * (5 * LARGE) + b'"}}')
    assert len(bomb) < MEBIBYTE

    def ask() -> None:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        answer = client.call("POST", f"/v2/{queue_name('kept')}/tasks", headers=headers, body=bomb)
        assert answer.code == "INVALID_ARGUMENT"

    assert _grown(server, ask) < GROWTH_MAX


def test_a_request_of_30_mb_is_refused_over_grpc(server: ServerProcess, rpc: RpcClient) -> None:
    """RESOURCE_EXHAUSTED, as gRPC servers say it."""
    request = create_request("kept", "http://127.0.0.1:9/", body=b"A" * LARGE)

    def ask() -> None:
        with pytest.raises(grpc.RpcError) as refusal:
            rpc.create_task(request, timeout=20)
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    assert _grown(server, ask) < GROWTH_MAX


def test_a_gzip_bomb_is_refused_over_grpc(server: ServerProcess, rpc: RpcClient) -> None:
    """The same, compressed to nearly nothing."""
    request = create_request("kept", "http://127.0.0.1:9/", body=b"A" * (2 * LARGE))

    def ask() -> None:
        with pytest.raises(grpc.RpcError) as refusal:
            rpc.create_task(request, timeout=20, compression=grpc.Compression.Gzip)
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    assert _grown(server, ask, times=2) < GROWTH_MAX


def test_the_largest_task_is_taken(client: RestClient) -> None:
    """1 MB with room for the rest of the task is stored, one byte over 1 MiB is not."""
    client.create_task("kept", http_task("http://127.0.0.1:9/", name=task_name("kept", "mb"), body=b"A" * 1_000_000))
    over = http_task("http://127.0.0.1:9/", body=b"A" * (MEBIBYTE + 1))
    refusal = client.call("POST", f"/v2/{queue_name('kept')}/tasks", {"task": over})

    assert (refusal.code, refusal.value["error"]["message"]) == ("INVALID_ARGUMENT", "Task size too large")
    kept = client.expect("GET", f"/v2/{task_name('kept', 'mb')}?responseView=FULL")
    assert len(kept["httpRequest"]["body"]) == (1_000_000 + 2) // 3 * 4


def _create_at_once(rpc: RpcClient, count: int) -> tuple[set[str], list[float]]:
    """So many creates in flight at once: the names, and how long each took, the client's own work included."""
    spans: list[float] = []
    futures = []
    start = time.monotonic()
    for _ in range(count):
        future = rpc.create_task.future(create_request("many", "http://127.0.0.1:9/", body=b"x" * 100), timeout=10)
        future.add_done_callback(lambda _: spans.append(time.monotonic() - start))
        futures.append(future)
    names = {future.result().name for future in futures}
    return names, sorted(spans)


def test_a_thousand_creates_at_once(server: ServerProcess, client: RestClient) -> None:
    """All succeed, each within a second, while another queue is dispatched at full rate."""
    with Receiver() as receiver, RpcClient(server.address) as rpc:
        client.create_queue("busy", rateLimits={"maxConcurrentDispatches": 8})
        client.create_queue("many")
        client.do("pause", queue_name("many"))
        rpc.create_task(create_request("many", "http://127.0.0.1:9/"))
        known, p99s = 1, list[float]()
        while not p99s or (min(p99s) >= 1.0 and len(p99s) < 3):  # Again where the machine itself was busy.
            for _ in range(200):
                client.create_task("busy", http_task(f"{receiver.url}/busy"))
            names, spans = _create_at_once(rpc, 1000)
            known += len(names)
            p99s.append(spans[989])
            print(f"p50 {spans[500] * 1000:.0f} ms, p99 {spans[989] * 1000:.0f} ms")  # noqa: T201 - the figures
            assert len(names) == 1000
        receiver.wait("/busy", 200 * len(p99s))

    assert len(list(client.tasks("many"))) == known
    assert min(p99s) < 1.0


def test_one_name_is_given_once(server: ServerProcess, client: RestClient) -> None:
    """Of a hundred creates of one name at once, over both transports, one succeeds and the others say so."""
    connections, rounds = 10, 5
    barrier = threading.Barrier(2 * connections)
    codes: dict[str, Counter[str]] = {task_name("kept", f"once-{n}"): Counter() for n in range(rounds)}

    def over_rest() -> None:
        with RestClient(server.address) as rest:
            for name, counted in codes.items():
                barrier.wait(20)
                for _ in range(5):
                    task = http_task("http://127.0.0.1:9/", name=name)
                    counted[rest.call("POST", f"/v2/{queue_name('kept')}/tasks", {"task": task}).code] += 1

    def over_grpc() -> None:
        with RpcClient(server.address) as rpc:
            for name, counted in codes.items():
                barrier.wait(20)
                request = create_request("kept", "http://127.0.0.1:9/", name=name)
                for future in [rpc.create_task.future(request, timeout=20) for _ in range(5)]:
                    future.exception()  # Waits for the end.
                    counted[future.code().name] += 1

    run_all(connections * [over_rest, over_grpc])

    assert list(codes.values()) == rounds * [Counter(OK=1, ALREADY_EXISTS=99)]
    listed = [task["name"] for task in client.tasks("kept") if "/once-" in task["name"]]
    assert sorted(listed) == sorted(codes)


def test_ten_thousand_unnamed_tasks_have_ten_thousand_names(server: ServerProcess, client: RestClient) -> None:
    """From 32 threads; the names are well-formed, answer to GET, and are what is listed."""
    threads, each = 32, 313
    client.create_queue("unnamed")
    client.do("pause", queue_name("unnamed"))
    names: list[str] = []

    def create() -> None:
        with RpcClient(server.address) as rpc:
            request = create_request("unnamed", "http://127.0.0.1:9/")
            mine = []
            for _ in range(0, each, 16):
                futures = [rpc.create_task.future(request, timeout=30) for _ in range(16)]
                mine += [future.result().name for future in futures]
            names.extend(mine)

    run_all(threads * [create])

    assert len(names) > 10_000
    assert len(set(names)) == len(names)
    parted = {name.rpartition("/tasks/") for name in names}
    assert {parent for parent, _, _ in parted} == {queue_name("unnamed")}
    assert [task_id for _, _, task_id in parted if not ID.match(task_id)] == []
    assert {task["name"] for task in client.tasks("unnamed")} == set(names)
    for name in random.sample(names, 50):
        assert client.expect("GET", f"/v2/{name}")["name"] == name
