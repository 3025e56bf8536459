"""Long-running operations that are done when they are answered (wire.md section 4.11).

Every operation here ends within its call, so what is kept is only for callers who ask again: the latest few thousand,
in memory. `request_id` makes a repeated call return the first answer.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Any

from taskbell.core.errors import REQUESTED_ENTITY_NOT_FOUND, NotFound

KEPT = 10_000


class OperationService:
    """Finished operations by name, and by the request ids of the calls that made them."""

    def __init__(self) -> None:
        self._by_name: OrderedDict[str, Any] = OrderedDict()
        self._by_request: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def new_name(self, location: str) -> str:
        """A fresh name under `projects/P/locations/L`."""
        return f"{location}/operations/{uuid.uuid4()}"

    def earlier(self, scope: str, request_id: str) -> Any | None:
        """What the first call with this request id was answered."""
        return self._by_request.get((scope, request_id)) if request_id else None

    def keep(self, name: str, operation: Any, scope: str, request_id: str) -> None:
        """Remember a finished operation."""
        _put(self._by_name, name, operation)
        if request_id:
            _put(self._by_request, (scope, request_id), operation)

    def get(self, name: str) -> Any:
        """A remembered operation, or NotFound."""
        operation = self._by_name.get(name)
        if operation is None:
            raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
        return operation

    def forget(self, name: str) -> None:
        """Remember it no longer. NotFound where it is not known."""
        self.get(name)
        del self._by_name[name]

    def under(self, location: str) -> list[Any]:
        """The remembered operations of a location, oldest first."""
        return [operation for name, operation in self._by_name.items() if name.startswith(location + "/operations/")]


def _put(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    if len(kept) > KEPT:
        kept.popitem(last=False)
