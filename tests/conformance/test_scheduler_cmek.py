"""CMEK of Cloud Scheduler: over REST in v1 alone, where an update answers an operation (wire.md section 1)."""

from __future__ import annotations

import pytest

from tests.conformance.scheduler_wire import LOCATION, JobWire, RawRest

KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
CONFIG = f"{LOCATION}/cmekConfig"


@pytest.fixture
def rest() -> RawRest:
    """A server."""
    return RawRest(JobWire("rest"))


async def test_a_key_is_kept_and_taken_away(rest: RawRest) -> None:
    """As the gcloud command does it: the operation is done at once and can be asked for again."""
    assert await rest.ok("GET", f"/v1/{CONFIG}") == {"name": CONFIG}
    operation = await rest.ok("PATCH", f"/v1/{CONFIG}?updateMask=kmsKeyName", {"kmsKeyName": KEY})

    assert operation.pop("name").startswith(f"{LOCATION}/operations/")
    assert operation == {
        "done": True,
        "response": {
            "@type": "type.googleapis.com/google.cloud.scheduler.v1.CmekConfig",
            "name": CONFIG,
            "kmsKeyName": KEY,
        },
    }
    assert await rest.ok("GET", f"/v1/{CONFIG}") == {"name": CONFIG, "kmsKeyName": KEY}
    await rest.ok("PATCH", f"/v1/{CONFIG}", {"name": CONFIG})
    assert await rest.ok("GET", f"/v1/{CONFIG}") == {"name": CONFIG}


async def test_the_operation_can_be_read(rest: RawRest) -> None:
    """Clients poll it."""
    operation = await rest.ok("PATCH", f"/v1/{CONFIG}", {"kmsKeyName": KEY})

    assert await rest.ok("GET", f"/v1/{operation['name']}") == operation


async def test_the_two_products_have_keys_of_their_own(rest: RawRest) -> None:
    """Under one name."""
    await rest.ok("PATCH", f"/v2/{CONFIG}", {"kmsKey": KEY})

    assert await rest.ok("GET", f"/v1/{CONFIG}") == {"name": CONFIG}
    assert await rest.ok("GET", f"/v2/{CONFIG}") == {"name": CONFIG, "kmsKey": KEY}


@pytest.mark.parametrize(
    ("target", "body", "text"),
    [
        (CONFIG, {"kmsKeyName": "k"}, b"CmekConfig.kmsKeyName must be formatted"),
        (f"{CONFIG}?updateMask=kmsKey", {"kmsKeyName": KEY}, b"Invalid mask for CmekConfig: kms_key"),
        (CONFIG, {"kmsKey": KEY}, b"kmsKey"),
        ("projects/p/locations/MARS/cmekConfig", {"kmsKeyName": KEY}, b"Location 'MARS' is not a valid location."),
    ],
)
async def test_what_is_refused(rest: RawRest, target: str, body: dict[str, str], text: bytes) -> None:
    """The refusal names the field."""
    status, answer = await rest.call("PATCH", f"/v1/{target}", body)

    assert (status, text in answer) == (400, True), answer


async def test_v1beta1_has_none(rest: RawRest) -> None:
    """As Google's has not."""
    assert (await rest.call("GET", f"/v1beta1/{CONFIG}"))[0] == 404
