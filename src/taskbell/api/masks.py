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
    result = type(stored)()
    result.CopyFrom(stored)
    fields = stored.DESCRIPTOR.fields_by_name
    for path in paths or [name for name in fields if name not in output_only]:
        steps = path.split(".")
        if steps == ["*"]:
            return merged(stored, sent, (), output_only)
        if steps[0] not in output_only:
            _lay(result, sent, steps, path)
        elif steps[0] not in fields:
            raise _unknown(stored, path)
    return result


def _lay(into: Any, sent: Any, steps: Sequence[str], path: str) -> None:
    field = into.DESCRIPTOR.fields_by_name.get(steps[0])
    if field is None:
        raise _unknown(into, path)
    if len(steps) == 1:
        _copy(into, sent, field)
        return
    if field.message_type is None or field.is_repeated:
        raise _unknown(into, path)
    has_stored = into.HasField(field.name)
    inner = type(getattr(into, field.name))()
    if has_stored:
        inner.CopyFrom(getattr(into, field.name))
    _lay(inner, getattr(sent, field.name), steps[1:], path)
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


def _unknown(message: Any, path: str) -> InvalidArgument:
    return InvalidArgument(f"Invalid mask for {message.DESCRIPTOR.name}: {path}")
