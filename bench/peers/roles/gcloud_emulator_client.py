"""The emulator's two roles: `worker ADDRESS URL` lets its queues run, `producer ADDRESS URL COUNT` creates tasks.

The emulator is both broker and worker, so "starting the worker" is resuming its queues: a producer that finds no queues
makes them paused. Runs in the emulator's own virtual environment, so it imports nothing of the project.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

ROLE, ADDRESS, URL = sys.argv[1:4]
PARENT = "projects/bench/locations/here"
QUEUES = [f"{PARENT}/queues/q{number}" for number in range(24)]

channel = grpc.insecure_channel(ADDRESS)
client = tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))


def make_queues(*, paused: bool) -> None:
    """Have all queues, in the wanted state unless they existed and are to stay as they are."""
    known = {queue.name for queue in client.list_queues(parent=PARENT)}
    for name in QUEUES:
        if name not in known:
            client.create_queue(parent=PARENT, queue=tasks_v2.Queue(name=name))
            if paused:
                client.pause_queue(name=name)
        if not paused:
            client.resume_queue(name=name)


def create(number: int) -> None:
    """Create one task."""
    request = tasks_v2.HttpRequest(url=URL, http_method=tasks_v2.HttpMethod.POST, body=b"a" * 100)
    client.create_task(parent=QUEUES[number % len(QUEUES)], task=tasks_v2.Task(http_request=request))


def produce(count: int) -> None:
    """Create that many tasks, spread over the queues."""
    make_queues(paused=True)
    with ThreadPoolExecutor(64) as threads:
        print(f"started {time.monotonic_ns()}", flush=True)
        for _ in threads.map(create, range(count)):
            pass
        print(f"enqueued {time.monotonic_ns()}", flush=True)


if ROLE == "worker":
    make_queues(paused=False)
    print("ready", flush=True)
    sys.stdin.read()
else:
    produce(int(sys.argv[4]))
