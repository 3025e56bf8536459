"""Field masks over messages: lay the named fields of a sent message over a stored one.

Paths are snake_case and may lead into sub-messages. A path whose field is absent from the sent message clears the
stored one; a sub-message all of whose fields were cleared that way is dropped. An empty mask lays over everything that
callers may set. Output-only fields are left alone, whoever names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from taskbell.core.errors import InvalidArgument


def merged(stored: Any, sent: Any, paths: Sequence[str], output_only: frozenset[str]) -> Any:
    """A new message of the same type. Raises InvalidArgument for a path that names no field."""
    for path in paths:
        _check(stored.DESCRIPTOR, path)
    result = type(stored)()
    result.CopyFrom(stored)
    every = [name for name in stored.DESCRIPTOR.fields_by_name if name not in output_only]
    for path in every if not paths or "*" in paths else paths:
        steps = path.split(".")
        if steps[0] not in output_only:
            _lay(result, sent, steps)
    return result


def _check(descriptor: Any, path: str) -> None:
    if path == "*":
        return
    inner: Any = descriptor
    is_inside = False
    for step in path.split("."):
        field = inner.fields_by_name.get(step) if inner is not None and not is_inside else None
        if field is None:
            raise InvalidArgument(f"Invalid mask for {descriptor.name}: {path}")
        inner, is_inside = field.message_type, field.is_repeated


def _lay(into: Any, sent: Any, steps: Sequence[str]) -> None:
    field = into.DESCRIPTOR.fields_by_name[steps[0]]
    if len(steps) == 1:
        _copy(into, sent, field)
        return
    inner = type(getattr(into, field.name))()
    if into.HasField(field.name):
        inner.CopyFrom(getattr(into, field.name))
    _lay(inner, getattr(sent, field.name), steps[1:])
    if inner.ListFields() or sent.HasField(field.name):
        getattr(into, field.name).CopyFrom(inner)
    else:
        into.ClearField(field.name)


def _copy(into: Any, sent: Any, field: FieldDescriptor) -> None:
    into.ClearField(field.name)
    if field.is_repeated:
        # Maps and lists alike: merging a message that holds only this field copies it whole.
        only = type(sent)()
        only.CopyFrom(sent)
        for other in sent.DESCRIPTOR.fields:
            if other.name != field.name:
                only.ClearField(other.name)
        into.MergeFrom(only)
    elif field.message_type is not None:
        if sent.HasField(field.name):
            getattr(into, field.name).CopyFrom(getattr(sent, field.name))
    elif not field.has_presence or sent.HasField(field.name):
        setattr(into, field.name, getattr(sent, field.name))
