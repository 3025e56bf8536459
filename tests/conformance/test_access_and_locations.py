"""IAM policies, CMEK configurations, locations (wire.md sections 4.6 and 4.13)."""

from __future__ import annotations

from typing import Any

import pytest
from google.iam.v1 import policy_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from tests.conformance.wire import LOCATION, PROJECT, QUEUE, Refused, Wire

QUEUE_MISSING = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
)
CMEK = f"{LOCATION}/cmekConfig"
KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"


def policy(member: str, etag: bytes = b"") -> Any:
    """A policy with one binding."""
    return policy_pb2.Policy(
        version=1, etag=etag, bindings=[policy_pb2.Binding(role="roles/cloudtasks.enqueuer", members=[member])]
    )


async def test_a_queue_without_a_policy_has_an_empty_one(wire: Wire) -> None:
    """With an etag to begin from."""
    await wire.create_queue()
    answer = await wire.call("GetIamPolicy", resource=QUEUE)

    assert not answer.bindings
    assert answer.etag


async def test_set_iam_policy_replaces_the_policy(wire: Wire) -> None:
    """What was set reads back, with an etag of its own."""
    await wire.create_queue()
    first = await wire.call("SetIamPolicy", resource=QUEUE, policy=policy("user:a@p"))
    second = await wire.call("SetIamPolicy", resource=QUEUE, policy=policy("user:b@p"))

    assert [list(binding.members) for binding in second.bindings] == [["user:b@p"]]
    assert first.etag != second.etag
    assert await wire.call("GetIamPolicy", resource=QUEUE) == second


async def test_set_iam_policy_with_an_old_etag_is_aborted(wire: Wire) -> None:
    """Read, modify, write: the second writer reads again."""
    await wire.create_queue()
    read = await wire.call("GetIamPolicy", resource=QUEUE)
    first = await wire.call("SetIamPolicy", resource=QUEUE, policy=policy("user:a@p", read.etag))
    refusal = await wire.refused("SetIamPolicy", resource=QUEUE, policy=policy("user:b@p", read.etag))

    assert refusal.code == "ABORTED"
    assert await wire.call("GetIamPolicy", resource=QUEUE) == first
    await wire.call("SetIamPolicy", resource=QUEUE, policy=policy("user:b@p", first.etag))


async def test_a_policy_goes_with_its_queue(wire: Wire) -> None:
    """A queue made again starts without."""
    await wire.create_queue()
    await wire.call("SetIamPolicy", resource=QUEUE, policy=policy("user:a@p"))
    await wire.call("DeleteQueue", name=QUEUE)
    assert await wire.refused("GetIamPolicy", resource=QUEUE) == Refused("NOT_FOUND", QUEUE_MISSING)
    wire.clock.advance(wire.stage.limits.queue_tombstone)
    await wire.create_queue()

    assert not (await wire.call("GetIamPolicy", resource=QUEUE)).bindings


@pytest.mark.parametrize("rpc", ["GetIamPolicy", "SetIamPolicy"])
async def test_a_policy_of_a_missing_queue(wire: Wire, rpc: str) -> None:
    """There is none to read or set."""
    assert await wire.refused(rpc, resource=QUEUE) == Refused("NOT_FOUND", QUEUE_MISSING)


async def test_test_iam_permissions(wire: Wire) -> None:
    """All that were asked for while callers are not checked; an empty set on a missing queue."""
    asked = ["cloudtasks.tasks.create", "cloudtasks.queues.get"]
    assert list((await wire.call("TestIamPermissions", resource=QUEUE, permissions=asked)).permissions) == []
    await wire.create_queue()
    assert list((await wire.call("TestIamPermissions", resource=QUEUE, permissions=asked)).permissions) == asked


async def test_cmek_config_is_stored_and_echoed(wire: Wire) -> None:
    """Empty before, and again once it is cleared."""
    empty = await wire.call("GetCmekConfig", name=CMEK)
    assert (empty.name, empty.kms_key) == (CMEK, "")
    set_ = await wire.call("UpdateCmekConfig", cmek_config={"name": CMEK, "kms_key": KEY})
    assert (set_.name, set_.kms_key) == (CMEK, KEY)
    assert await wire.call("GetCmekConfig", name=CMEK) == set_
    mask = FieldMask(paths=["kms_key"])
    assert await wire.call("UpdateCmekConfig", cmek_config={"name": CMEK}, update_mask=mask) == empty


async def test_cmek_config_refusals(wire: Wire) -> None:
    """A key of another form, a field that is none."""
    for fields in (
        {"cmek_config": {"name": CMEK, "kms_key": "k"}},
        {"cmek_config": {"name": CMEK}, "update_mask": FieldMask(paths=["colour"])},
    ):
        assert (await wire.refused("UpdateCmekConfig", **fields)).code == "INVALID_ARGUMENT"


async def test_list_locations_names_the_configured_ones_first(wire: Wire) -> None:
    """Then those in use; the region label is the one that gcloud takes its default from."""
    for location in ("zone", "asia-east1", "us-central1"):
        await wire.create_queue(f"{PROJECT}/locations/{location}/queues/q")
    await wire.create_queue("projects/other/locations/elsewhere/queues/q")
    found = (await wire.call("ListLocations", name=PROJECT)).locations

    assert [location.location_id for location in found] == ["us-central1", "europe-west1", "asia-east1", "zone"]
    for location in found:
        assert location.name == f"{PROJECT}/locations/{location.location_id}"
        assert dict(location.labels) == {"cloud.googleapis.com/region": location.location_id}
    first = await wire.call("ListLocations", name=PROJECT, page_size=3)
    rest = await wire.call("ListLocations", name=PROJECT, page_size=3, page_token=first.next_page_token)
    assert [*first.locations, *rest.locations] == list(found)
    assert not rest.next_page_token


async def test_get_location(wire: Wire) -> None:
    """Any well-formed one exists."""
    location = await wire.call("GetLocation", name=f"{PROJECT}/locations/anywhere")
    assert (location.location_id, location.labels["cloud.googleapis.com/region"]) == ("anywhere", "anywhere")

    assert (await wire.refused("GetLocation", name=f"{PROJECT}/locations/A_B")).code == "INVALID_ARGUMENT"
