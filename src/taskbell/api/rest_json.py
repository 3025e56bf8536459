"""JSON into request messages, refused in the words of Google's front end (wire.md section 10).

protobuf's own parser is not used for requests, because it drops what it does not know from base64, takes timestamps
in forms that JSON does not have, and names fields in its own words. Paths in refusals are proto names
(`task.http_request.body`), as Google's are, whichever case the caller sent. The values of query parameters are read by
the same rules: proto3 JSON allows text for every scalar.
"""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from taskbell.api.time_text import NANOS, duration_nanos, timestamp_nanos
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
        self._add(f'{RECEIVED} Unknown name "{_cut(name)}"{place}: {why}')

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
        raise InvalidArgument(f'{RECEIVED} The name "{_cut(twice)}" appears twice in one object.')
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
        faults.invalid(path, kind_of(message.DESCRIPTOR), _shown(value))
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
            scalar = _scalar(field, item, path, faults)
            if scalar is not None:
                setattr(message, field.name, scalar)
            return
        inner = getattr(message, field.name)
        inner.SetInParent()
        fill(inner, item, path, faults)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(getattr(message, field.name), field, item, path, faults)
    elif not isinstance(item, list):
        faults.invalid(path, kind_of(field), f"expected a list, not {_shown(item)}")
    else:
        _fill_list(getattr(message, field.name), field, item, path, faults)


def _fill_list(into: Any, field: FieldDescriptor, items: list[Any], path: str, faults: Faults) -> None:
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        if field.message_type is not None:
            fill(into.add(), item, place, faults)
        else:
            scalar = _scalar(field, item, place, faults)
            if scalar is not None:
                into.append(scalar)


def _fill_map(into: Any, field: FieldDescriptor, items: Any, path: str, faults: Faults) -> None:
    if not isinstance(items, dict):
        faults.invalid(path, kind_of(field), f"expected an object, not {_shown(items)}")
        return
    entry: Any = field.message_type
    keys, values = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for index, (name, item) in enumerate(items.items()):
        place = f"{path}[{index}].value"
        key = _scalar(keys, name, f"{path}[{index}].key", faults)
        if key is None:
            continue
        if values.message_type is not None:
            fill(into[key], item, place, faults)
        else:
            scalar = _scalar(values, item, place, faults)
            if scalar is not None:
                into[key] = scalar


# --- Scalars --------------------------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """The reason why a scalar cannot be taken."""


def _scalar(field: FieldDescriptor, item: Any, path: str, faults: Faults) -> Any:
    """The value for a field that is no message; None after a fault was noted."""
    if isinstance(item, dict | list):
        shape = "list" if isinstance(item, list) else "object"
        faults.invalid(path, kind_of(field), f"Proto field is not repeating, cannot start {shape}.")
        return None
    try:
        return _READERS[field.type](field, item)
    except _RefusedError as refused:
        faults.invalid(path, kind_of(field), str(refused) or _shown(item))
        return None


def _text(_: FieldDescriptor, item: Any) -> str:
    if not isinstance(item, str):
        raise _RefusedError
    try:
        item.encode()
    except UnicodeEncodeError:
        raise _RefusedError("a lone surrogate is not text") from None
    return item


_STANDARD_ALPHABET = str.maketrans("-_", "+/")


def _bytes(_: FieldDescriptor, item: Any) -> bytes:
    """Base64 in either alphabet, padded or not."""
    if not isinstance(item, str):
        raise _RefusedError
    digits = item.rstrip("=")
    padding = -len(digits) % 4
    try:
        if len(item) - len(digits) in (0, padding):
            return binascii.a2b_base64(digits.translate(_STANDARD_ALPHABET) + "=" * padding, strict_mode=True)
    except ValueError:
        pass  # Refused as wrong padding is.
    raise _RefusedError(f"Base64 decoding failed for {_shown(item)}")


def _bool(_: FieldDescriptor, item: Any) -> bool:
    if isinstance(item, bool):
        return item
    if item in ("true", "false"):
        return bool(item == "true")
    raise _RefusedError


_INTEGER = re.compile(r"-?[0-9]{1,20}")
_RANGES = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SINT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
}
_INT32 = (-(2**31), 2**31 - 1)


def _integer(field: FieldDescriptor, item: Any) -> int:
    if isinstance(item, bool):
        raise _RefusedError
    is_whole = item.is_integer() if isinstance(item, float) else isinstance(item, int)
    if not is_whole and not (isinstance(item, str) and _INTEGER.fullmatch(item)):
        raise _RefusedError
    number = int(item)
    least, most = _RANGES.get(field.type, _INT32)
    if not least <= number <= most:
        raise _RefusedError
    return number


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _float(field: FieldDescriptor, item: Any) -> float:
    if isinstance(item, str) and item in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[item]
    if isinstance(item, bool) or (isinstance(item, str) and not _NUMBER.fullmatch(item)):
        raise _RefusedError
    try:
        number = float(item)
        if field.type == FieldDescriptor.TYPE_FLOAT:
            struct.pack("f", number)
    except (OverflowError, TypeError, ValueError):
        raise _RefusedError from None
    if math.isinf(number):
        raise _RefusedError
    return number


def _enum(field: FieldDescriptor, item: Any) -> int:
    enum: Any = field.enum_type
    if isinstance(item, str) and item in enum.values_by_name:
        return int(enum.values_by_name[item].number)
    return _integer(field, item)


_READERS: dict[int, Callable[[FieldDescriptor, Any], Any]] = {
    **dict.fromkeys(range(1, 19), _integer),
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_BYTES: _bytes,
    FieldDescriptor.TYPE_BOOL: _bool,
    FieldDescriptor.TYPE_ENUM: _enum,
    FieldDescriptor.TYPE_DOUBLE: _float,
    FieldDescriptor.TYPE_FLOAT: _float,
}
_KINDS = {
    number: name
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_") and isinstance(number, int)
}


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
        faults.invalid(path, kind_of(message.DESCRIPTOR), _shown(value))


_WELL_KNOWN: dict[str, Callable[[Any, Any, str, Faults], None]] = {
    "google.protobuf.Timestamp": _fill_timestamp,
    "google.protobuf.Duration": _fill_duration,
    "google.protobuf.FieldMask": _fill_mask,
}
_UPPER = re.compile("[A-Z]")


def snake(text: str) -> str:
    """A mask's path in proto names, whichever case it came in."""
    return _UPPER.sub(lambda match: "_" + match[0].lower(), text)


def kind_of(what: FieldDescriptor | Descriptor) -> str:
    """How Google's refusals name a type."""
    if isinstance(what, Descriptor):
        return f"type.googleapis.com/{what.full_name}"
    named = what.message_type or what.enum_type
    return f"type.googleapis.com/{named.full_name}" if named is not None else _KINDS[what.type]


def _at_field(path: str) -> str:
    name = path.rsplit(".", 1)[-1]
    return f"Field '{re.sub('_([a-z])', lambda match: match[1].upper(), name)}'"


def _shown(value: Any) -> str:
    """A value as JSON, shortened, so that a refusal does not echo a megabyte."""
    if isinstance(value, str):
        return json.dumps(_cut(value), ensure_ascii=False)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    text = text.encode(errors="replace").decode()
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
