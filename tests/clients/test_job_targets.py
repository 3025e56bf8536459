"""Jobs of each target that Google's client created, on their way: at their minute, and to Google's Pub/Sub emulator."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import grpc
import pytest
from google.cloud import scheduler_v1
from google.cloud.scheduler_v1.services.cloud_scheduler.transports import CloudSchedulerGrpcTransport

from tests.clients.job_scenario import AGENT, APP_ENGINE_AGENT, YEARLY
from tests.clients.scenario import BODY, LOCATION
from tests.support.pubsub import Message, pubsub_emulator
from tests.support.receiver import Received, Receiver
from tests.support.server import ServerProcess

PARENT = f"projects/targets/locations/{LOCATION}"
ZONE = "Asia/Kathmandu"
"""Its offset is no whole hour."""


def client_of(server: ServerProcess) -> scheduler_v1.CloudSchedulerClient:
    """Google's client over gRPC."""
    channel = grpc.insecure_channel(server.address)
    return scheduler_v1.CloudSchedulerClient(transport=CloudSchedulerGrpcTransport(channel=channel))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[ServerProcess]:
    """A server with two App Engine services, on which a job of each target waits for the next minute."""
    services = f"default={receiver.url}/main,worker={receiver.url}/worker"
    with ServerProcess(tmp_path_factory.mktemp("targets"), "--app-engine", services) as running:
        with client_of(running) as client:
            for job_id, target in (
                ("http", {"http_target": {"uri": f"{receiver.url}/at-minute", "body": BODY}}),
                ("main", {"app_engine_http_target": {"relative_uri": "/at-minute"}}),
                (
                    "worker",
                    {
                        "app_engine_http_target": {
                            "relative_uri": "/at-minute",
                            "app_engine_routing": {"service": "worker"},
                            "body": BODY,
                        }
                    },
                ),
            ):
                job = {"name": f"{PARENT}/jobs/{job_id}", "schedule": "* * * * *", "time_zone": ZONE} | target
                client.create_job(parent=PARENT, job=scheduler_v1.Job(job))
        yield running


@pytest.mark.usefixtures("server")
def test_a_job_reaches_googles_pubsub_emulator(tmp_path: Path) -> None:
    """The very bytes and attributes; and the job's status tells that they were accepted, or that no topic was there."""
    topic, subscription = "projects/targets/topics/jobs", "projects/targets/subscriptions/jobs"
    with pubsub_emulator(tmp_path) as emulator:
        emulator.create_topic(topic, subscription)
        with (
            ServerProcess(tmp_path, "--pubsub-emulator-host", emulator.address) as server,
            client_of(server) as client,
        ):
            for job_id, name in (("there", topic), ("absent", f"{topic}-absent")):
                target = scheduler_v1.PubsubTarget(topic_name=name, data=BODY, attributes={"ü": "é"})
                job = scheduler_v1.Job(name=f"{PARENT}/jobs/{job_id}", schedule=YEARLY, pubsub_target=target)
                client.run_job(name=client.create_job(parent=PARENT, job=job).name)

            assert emulator.pull(subscription, 10) == [Message(BODY, {"ü": "é"})]
            assert _settled(client, "there") == grpc.StatusCode.OK.value[0]
            assert _settled(client, "absent") == grpc.StatusCode.NOT_FOUND.value[0]


def _settled(client: scheduler_v1.CloudSchedulerClient, job_id: str) -> int:
    """The code of a job's status once it is known."""
    end = time.monotonic() + 10
    while (job := client.get_job(name=f"{PARENT}/jobs/{job_id}")).status.code == -1:
        assert time.monotonic() < end, "the attempt did not end"
    return int(job.status.code)


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("job_id", "path", "agent"),
    [
        ("http", "/at-minute", AGENT),
        ("main", "/main/at-minute", APP_ENGINE_AGENT),
        ("worker", "/worker/at-minute", APP_ENGINE_AGENT),
    ],
)
def test_a_job_fires_at_its_minute(
    job_id: str, path: str, agent: str, server: ServerProcess, receiver: Receiver
) -> None:
    """Not before the minute and soon after it, with the minute's time in the job's zone, and once."""
    deliveries = receiver.wait(path, 1, timeout=65)

    # Where this machine is slow, the next minute may have come as well.
    times = [delivery.header("x-cloudscheduler-scheduletime") for delivery in deliveries]
    assert len(set(times)) == len(times)
    delivery = deliveries[0]
    instant = dt.datetime.fromisoformat(delivery.header("x-cloudscheduler-scheduletime") or "")
    assert instant.isoformat() == instant.astimezone(ZoneInfo(ZONE)).isoformat()
    assert instant.second == 0
    assert 0 <= delivery.arrival_time - instant.timestamp() < 5
    assert delivery.body == (b"" if job_id == "main" else BODY)
    assert _scheduler_headers(delivery) == {
        "user-agent": agent,
        "x-cloudscheduler": "true",
        "x-cloudscheduler-jobname": job_id,
    }
    with client_of(server) as client:
        job = client.get_job(name=f"{PARENT}/jobs/{job_id}")
        # proto-plus declares times as protobuf, and hands out datetime.
        following: Any = job.schedule_time
        assert following > instant
        assert (following - instant) % dt.timedelta(minutes=1) == dt.timedelta()
        client.pause_job(name=job.name)


def _scheduler_headers(delivery: Received) -> dict[str, str]:
    """What the service says of itself, but for the time."""
    headers = delivery.lowered()
    return {name: headers[name] for name in ("user-agent", "x-cloudscheduler", "x-cloudscheduler-jobname")}
