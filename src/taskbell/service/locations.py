"""Locations and their CMEK configurations (wire.md section 4.13)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taskbell.core import names
from taskbell.core.errors import InvalidArgument
from taskbell.engine import Engine

_KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+\Z")
_CMEK_SUFFIX = "/cmekConfig"


class LocationService:
    """The locations of this server: opaque parts of names, of which some are listed."""

    def __init__(self, engine: Engine, listed: Sequence[str]) -> None:
        self._engine = engine
        self._listed = listed

    async def ids(self, project: str) -> list[str]:
        """Configured locations first, then those in which the project has queues."""
        prefix = f"projects/{project}/locations/"
        used = {
            q.name[len(prefix) :].split("/", 1)[0] for q in await self._engine.all_queues() if q.name.startswith(prefix)
        }
        return [*self._listed, *sorted(used.difference(self._listed))]

    async def kms_key(self, name: str, field: str = "kmsKey") -> str:
        """The stored key's name of `projects/P/locations/L/cmekConfig`; empty: none.

        `field` is what its product calls it: each of the two has a configuration of its own under the one name.
        """
        _check_cmek_name(name)
        return (await self._engine.record(_record_key(name, field)) or b"").decode()

    async def set_kms_key(self, name: str, key: str, field: str = "kmsKey") -> str:
        """Store a key's name; empty turns CMEK off. Nothing is encrypted with it here."""
        _check_cmek_name(name)
        if key and _KMS_KEY.match(key) is None:
            raise InvalidArgument(
                f"CmekConfig.{field} must be formatted: "
                '"projects/<PROJECT_ID>/locations/<LOCATION_ID>/keyRings/<KEY_RING>/cryptoKeys/<KEY>".'
            )
        await self._engine.put_record(_record_key(name, field), key.encode())
        return key


def _record_key(name: str, field: str) -> str:
    return f"cmek:{name}" if field == "kmsKey" else f"cmek:{field}:{name}"


def _check_cmek_name(name: str) -> None:
    if not name.endswith(_CMEK_SUFFIX):
        raise InvalidArgument(names.INVALID_RESOURCE)
    names.parse_location(name.removesuffix(_CMEK_SUFFIX))
