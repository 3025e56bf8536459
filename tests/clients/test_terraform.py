"""What Terraform's Google provider sends for `google_cloud_tasks_queue`, replayed request by request.

The provider is a large download of its own that a test run should not need, so this is its sequence: paths under its
custom endpoint `http://HOST:PORT/v2/`, `alt=json`, whole sub-messages in PATCH masks, `desired_state` through :pause
and :resume, policies read by POST. A plan stays empty only while every answer says exactly what was sent, in the same
form.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.clients.scenario import LOCATION, NO_QUEUE
from tests.support.server import ServerProcess

PARENT = f"projects/terraform-user/locations/{LOCATION}"
NAME = f"{PARENT}/queues/instance-name"
Answer = dict[str, Any]


class Provider:
    """A client that asks as the provider does."""

    def __init__(self, server: ServerProcess) -> None:
        """Keep one connection, as the provider's HTTP client would."""
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=10)

    def ask(self, method: str, path: str, body: Answer | None = None, mask: str | None = None) -> tuple[int, Answer]:
        """Status and JSON body of one request; Go's encoder sorts query parameters and escapes commas."""
        query = "alt=json" if mask is None else f"alt=json&updateMask={quote(mask, safe='')}"
        headers = {"Content-Type": "application/json", "User-Agent": "Terraform/1.11 terraform-provider-google/6"}
        content = None if body is None else json.dumps(body) + "\n"
        self._connection.request(method, f"/v2/{path}?{query}", body=content, headers=headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@pytest.fixture
def provider(server: ServerProcess) -> Iterator[Provider]:
    """A provider that talks to the server."""
    provider = Provider(server)
    yield provider
    provider.close()


def test_queue_from_create_to_destroy(provider: Provider) -> None:
    """Apply, plan, change, pause, resume and destroy see what they sent, and nothing that would make a plan differ."""
    rate_limits: Answer = {"maxConcurrentDispatches": 3, "maxDispatchesPerSecond": 2}
    retry_config: Answer = {
        "maxAttempts": 5,
        "maxBackoff": "3s",
        "maxDoublings": 1,
        "maxRetryDuration": "4s",
        "minBackoff": "2s",
    }
    logging_config = {"samplingRatio": 0.9}
    wanted: Answer = {
        "name": NAME,
        "rateLimits": rate_limits,
        "retryConfig": retry_config,
        "stackdriverLoggingConfig": logging_config,
    }
    status, created = provider.ask("POST", f"{PARENT}/queues", wanted)
    assert status == 200
    # The burst is the server's word: the provider reads it, but never sends it back (v2 says output only).
    stored = wanted | {"state": "RUNNING", "rateLimits": rate_limits | {"maxBurstSize": 10}}
    assert created == stored
    assert provider.ask("GET", NAME) == (200, stored)

    # A changed argument sends the whole blocks that it lies in.
    change = {"rateLimits": rate_limits | {"maxDispatchesPerSecond": 1.5}, "retryConfig": retry_config}
    stored = stored | {"rateLimits": change["rateLimits"] | {"maxBurstSize": 10}}
    assert provider.ask("PATCH", NAME, change, mask="rateLimits,retryConfig") == (200, stored)
    # A block that was removed is a masked field without a value: back to its default.
    del stored["stackdriverLoggingConfig"]
    assert provider.ask("PATCH", NAME, {}, mask="stackdriverLoggingConfig") == (200, stored)
    assert provider.ask("GET", NAME) == (200, stored)

    # desired_state = "PAUSED", then "RUNNING"; the provider posts an empty object.
    assert provider.ask("POST", f"{NAME}:pause", {}) == (200, stored | {"state": "PAUSED"})
    assert provider.ask("GET", NAME) == (200, stored | {"state": "PAUSED"})
    assert provider.ask("POST", f"{NAME}:resume", {}) == (200, stored)

    assert provider.ask("DELETE", NAME) == (200, {})
    status, gone = provider.ask("GET", NAME)
    assert status == 404
    assert gone["error"] == {"code": 404, "message": NO_QUEUE, "status": "NOT_FOUND"}


def test_policy_of_a_queue(provider: Provider) -> None:
    """`google_cloud_tasks_queue_iam_member` reads, changes and writes back the policy under its etag."""
    name = f"{PARENT}/queues/shared"
    assert provider.ask("POST", f"{PARENT}/queues", {"name": name})[0] == 200
    status, policy = provider.ask("POST", f"{name}:getIamPolicy", {})
    assert status == 200
    assert policy.get("bindings", []) == []

    binding = {"members": ["user:jane@example.com"], "role": "roles/viewer"}
    changed = {"policy": policy | {"bindings": [binding]}}
    status, stored = provider.ask("POST", f"{name}:setIamPolicy", changed)
    assert status == 200
    assert stored["bindings"] == [binding]
    assert provider.ask("POST", f"{name}:getIamPolicy", {}) == (200, stored)
