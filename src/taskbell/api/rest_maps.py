"""Maps of an answer in the order of their keys, so that the same resource is the same JSON, byte for byte.

protobuf hands out the entries of a map in an order of its own, which differs between two equal messages. Clients that
compare what they read with what they read before would see a change where there is none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor


def sort_maps(value: dict[str, Any], descriptor: Descriptor) -> None:
    """Order the maps within the JSON object of a message, in place."""
    for field in _leading_to_maps(descriptor):
        inner = value.get(field.json_name)
        if inner is None:
            continue
        if _is_map(field):
            value[field.json_name] = dict(sorted(inner.items()))
        else:
            assert field.message_type is not None
            for each in inner if field.is_repeated else (inner,):
                sort_maps(each, field.message_type)


@cache
def _leading_to_maps(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(field for field in descriptor.fields if _leads_to_map(field, ()))


def _leads_to_map(field: FieldDescriptor, above: tuple[Descriptor, ...]) -> bool:
    inner = field.message_type
    # google.protobuf's own types are other things than objects in JSON.
    if inner is None or inner in above or inner.file.package == "google.protobuf":
        return False
    return _is_map(field) or any(_leads_to_map(each, (*above, inner)) for each in inner.fields)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
