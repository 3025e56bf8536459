"""Celery's two roles: `worker REDIS URL` and `producer REDIS URL COUNT`. See measure.py for the lines they print.

Runs in Celery's own virtual environment, so it imports nothing of the project.
"""

from __future__ import annotations

import sys
import time

import urllib3
from celery import Celery
from celery.signals import worker_ready

ROLE, REDIS, URL = sys.argv[1:4]
BODY = "a" * 100

app = Celery("bench", broker=REDIS)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, worker_redirect_stdouts=False)
pool = urllib3.PoolManager()


@app.task(name="post")
def post(body: str) -> None:
    """The job: the same POST that everyone makes."""
    answer = pool.request("POST", URL, body=body.encode())
    if answer.status >= 300:
        raise RuntimeError(answer.status)


@worker_ready.connect
def ready(**_ignored: object) -> None:
    """Say that jobs are being taken."""
    print("ready", flush=True)


def produce(count: int) -> None:
    """Enqueue that many jobs."""
    print(f"started {time.monotonic_ns()}", flush=True)
    for _ in range(count):
        post.delay(BODY)
    print(f"enqueued {time.monotonic_ns()}", flush=True)


if ROLE == "worker":
    app.worker_main(["worker", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"])
else:
    produce(int(sys.argv[4]))
