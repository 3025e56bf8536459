"""JSON into request messages, field by field along their descriptors (wire.md section 10).

protobuf's own parser is not used for requests, because it drops what it does not know from base64, takes timestamps
in forms that JSON does not have, and names fields in its own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from taskbell.api.rest_faults import RECEIVED, Faults, cut, kind_of, shown
from taskbell.api.rest_scalars import scalar_of
from taskbell.api.time_text import NANOS, duration_nanos, timestamp_nanos
from taskbell.core.errors import InvalidArgument


def json_object(body: bytes) -> dict[str, Any]:
    """The one object of a JSON text. Raises InvalidArgument; names that appear twice and NaN are refused too."""
    try:
        value = json.loads(
            body.decode("utf-8-sig"), object_pairs_hook=_object_of_pairs, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError:
        raise InvalidArgument(f"{RECEIVED} It is not valid UTF-8.") from None
    except RecursionError:
        raise InvalidArgument(f"{RECEIVED} It is nested too deeply.") from None
    except json.JSONDecodeError as fault:
        raise InvalidArgument(f"{RECEIVED} {fault}.") from None
    except ValueError:
        raise InvalidArgument(f"{RECEIVED} A number has too many digits.") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f'{RECEIVED} Unknown name "": Root element must be a message.')
    return value


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidArgument(f'{RECEIVED} The name "{cut(twice)}" appears twice in one object.')
    return result


def _refuse_constant(text: str) -> None:
    raise InvalidArgument(f"{RECEIVED} {text} is not a JSON value.")


@cache
def fields_of(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    """A message's fields by their lowerCamelCase and their proto names."""
    return {key: field for field in descriptor.fields for key in (field.name, field.json_name)}


def fill(message: Any, value: Any, path: str, faults: Faults) -> None:
    """Lay a JSON value into an empty message."""
    read = _WELL_KNOWN.get(message.DESCRIPTOR.full_name)
    if read is not None:
        read(message, value, path, faults)
    elif message.DESCRIPTOR.file.package == "google.protobuf" and message.DESCRIPTOR.name != "Empty":
        _fill_by_protobuf(message, value, path, faults)
    elif not isinstance(value, dict):
        faults.invalid(path, kind_of(message.DESCRIPTOR), shown(value))
    else:
        _fill_fields(message, value, path, faults)


def _fill_fields(message: Any, value: dict[str, Any], path: str, faults: Faults) -> None:
    fields = fields_of(message.DESCRIPTOR)
    seen: set[str] = set()
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            faults.unknown(name, path)
            continue
        if field.name in seen:
            faults.unknown(name, path, "The field is already set under its other spelling.")
            continue
        seen.add(field.name)
        if item is None:  # Null stands for absent.
            continue
        oneof = field.containing_oneof
        taken = message.WhichOneof(oneof.name) if oneof is not None and len(oneof.fields) > 1 else None
        if oneof is not None and taken is not None:
            faults.invalid(
                path or message.DESCRIPTOR.name,
                "oneof",
                f"oneof field '{oneof.name}' is already set. Cannot set '{field.json_name}'",
            )
            continue
        set_field(message, field, item, f"{path}.{field.name}" if path else field.name, faults)


def set_field(message: Any, field: FieldDescriptor, item: Any, path: str, faults: Faults) -> None:
    """Set one field, of whatever shape, from its JSON value."""
    if not field.is_repeated:
        if field.message_type is None:
            scalar = scalar_of(field, item, path, faults)
            if scalar is not None:
                setattr(message, field.name, scalar)
            return
        inner = getattr(message, field.name)
        inner.SetInParent()
        fill(inner, item, path, faults)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(getattr(message, field.name), field, item, path, faults)
    elif not isinstance(item, list):
        faults.invalid(path, kind_of(field), f"expected a list, not {shown(item)}")
    else:
        _fill_list(getattr(message, field.name), field, item, path, faults)


def _fill_list(into: Any, field: FieldDescriptor, items: list[Any], path: str, faults: Faults) -> None:
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        if field.message_type is not None:
            fill(into.add(), item, place, faults)
        else:
            scalar = scalar_of(field, item, place, faults)
            if scalar is not None:
                into.append(scalar)


def _fill_map(into: Any, field: FieldDescriptor, items: Any, path: str, faults: Faults) -> None:
    if not isinstance(items, dict):
        faults.invalid(path, kind_of(field), f"expected an object, not {shown(items)}")
        return
    entry: Any = field.message_type
    keys, values = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for index, (name, item) in enumerate(items.items()):
        if item is None:
            continue  # `gcloud ... --remove-headers` sends what is to go as null, and Google takes it.
        place = f"{path}[{index}].value"
        key = scalar_of(keys, name, f"{path}[{index}].key", faults)
        if key is None:
            continue
        if values.message_type is not None:
            fill(into[key], item, place, faults)
        else:
            scalar = scalar_of(values, item, place, faults)
            if scalar is not None:
                into[key] = scalar


# --- Messages with a form of their own ------------------------------------------------------------------------------


def _fill_timestamp(message: Any, value: Any, path: str, faults: Faults) -> None:
    nanos = timestamp_nanos(value) if isinstance(value, str) else None
    if nanos is None:
        ends = "timestamps must be RFC 3339 text that ends with 'Z' or has a valid timezone offset."
        faults.invalid(path, kind_of(message.DESCRIPTOR), f"{_at_field(path)}, Illegal timestamp format; {ends}")
    else:
        message.seconds, message.nanos = divmod(nanos, NANOS)


def _fill_duration(message: Any, value: Any, path: str, faults: Faults) -> None:
    nanos = duration_nanos(value) if isinstance(value, str) else None
    if nanos is None:
        ends = "durations must be decimal seconds that end with 's'."
        faults.invalid(path, kind_of(message.DESCRIPTOR), f"{_at_field(path)}, Illegal duration format; {ends}")
    else:
        seconds, rest = divmod(abs(nanos), NANOS)
        sign = -1 if nanos < 0 else 1
        message.seconds, message.nanos = sign * seconds, sign * rest


def _fill_mask(message: Any, value: Any, path: str, faults: Faults) -> None:
    if isinstance(value, str):
        message.paths.extend(snake(name.strip()) for name in value.split(",") if name.strip())
    else:
        faults.invalid(path, kind_of(message.DESCRIPTOR), f"{_at_field(path)}, a mask is comma-separated text.")


def _fill_by_protobuf(message: Any, value: Any, path: str, faults: Faults) -> None:
    """Any, Struct and wrappers: they have no field whose path could be named."""
    try:
        json_format.ParseDict(value, message)
    except (json_format.ParseError, AttributeError, TypeError, ValueError, RecursionError):
        # It looks into values before it has checked what they are.
        faults.invalid(path, kind_of(message.DESCRIPTOR), shown(value))


_WELL_KNOWN: dict[str, Callable[[Any, Any, str, Faults], None]] = {
    "google.protobuf.Timestamp": _fill_timestamp,
    "google.protobuf.Duration": _fill_duration,
    "google.protobuf.FieldMask": _fill_mask,
}
_UPPER = re.compile("[A-Z]")


def snake(text: str) -> str:
    """A mask's path in proto names, whichever case it came in."""
    return _UPPER.sub(lambda match: "_" + match[0].lower(), text)


def _at_field(path: str) -> str:
    name = path.rsplit(".", 1)[-1]
    return f"Field '{re.sub('_([a-z])', lambda match: match[1].upper(), name)}'"
