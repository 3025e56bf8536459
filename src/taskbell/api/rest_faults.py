"""What is wrong with a request, in the words of Google's front end (wire.md section 10).

Paths are proto names (`task.http_request.body`), as Google's are, whichever case the caller sent.
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from taskbell.core.errors import InvalidArgument

RECEIVED = "Invalid JSON payload received."
_FAULTS_MAX = 10
"""Google lists every fault; a body can hold more of them than anyone reads."""
_SHOWN_MAX = 100


class Faults:
    """What is wrong with one request."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def unknown(self, name: str, path: str, why: str = "Cannot find field.") -> None:
        """A name that means nothing where it stands."""
        place = f" at '{path}'" if path else ""
        self._add(f'{RECEIVED} Unknown name "{cut(name)}"{place}: {why}')

    def invalid(self, path: str, kind: str, why: str) -> None:
        """A value that its field cannot take."""
        self._add(f"Invalid value at '{path}' ({kind}), {why}")

    def _add(self, text: str) -> None:
        self._texts.append(text)
        if len(self._texts) >= _FAULTS_MAX:
            self.check()

    def check(self) -> None:
        """Raise InvalidArgument if anything was wrong."""
        if self._texts:
            raise InvalidArgument("\n".join(self._texts))


_KINDS = {
    number: name
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_") and isinstance(number, int)
}


def kind_of(what: FieldDescriptor | Descriptor) -> str:
    """How Google's refusals name a type."""
    if isinstance(what, Descriptor):
        return f"type.googleapis.com/{what.full_name}"
    named = what.message_type or what.enum_type
    return f"type.googleapis.com/{named.full_name}" if named is not None else _KINDS[what.type]


def shown(value: Any) -> str:
    """A value as JSON, shortened, so that a refusal does not echo a megabyte."""
    if isinstance(value, str):
        return json.dumps(cut(value), ensure_ascii=False)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return cut(json.dumps(value))


def cut(text: str) -> str:
    """Text that can be encoded, shortened."""
    text = text.encode(errors="replace").decode()
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
