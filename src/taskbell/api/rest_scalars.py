"""JSON values as the scalars of messages: text, bytes, numbers, truth and enums.

proto3 JSON allows text for every scalar, so the values of query parameters are read by the same rules.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from taskbell.api.rest_faults import Faults, kind_of, shown


class _RefusedError(Exception):
    """The reason why a scalar cannot be taken."""


def scalar_of(field: FieldDescriptor, item: Any, path: str, faults: Faults) -> Any:
    """The value for a field that is no message; None after a fault was noted."""
    if isinstance(item, dict | list):
        shape = "list" if isinstance(item, list) else "object"
        faults.invalid(path, kind_of(field), f"Proto field is not repeating, cannot start {shape}.")
        return None
    try:
        return _READERS[field.type](field, item)
    except _RefusedError as refused:
        faults.invalid(path, kind_of(field), str(refused) or shown(item))
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
    raise _RefusedError(f"Base64 decoding failed for {shown(item)}")


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
