"""The query of a REST request: how to answer, and the fields of the request that neither path nor body bind.

Field parameters are dotted paths in either case, repeated for repeated fields, with scalars, enums, timestamps,
durations and masks as their values. Google's standard parameters are known everywhere; those that change nothing here
are accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from google.protobuf.descriptor import FieldDescriptor

from taskbell.api.rest_faults import Faults
from taskbell.api.rest_json import fields_of, set_field
from taskbell.core.errors import InvalidArgument

_IGNORED = frozenset(
    {
        *(".xgafv", "access_token", "callback", "key", "oauth_token", "quotaUser", "uploadType", "upload_protocol"),
        "extraLocationTypes",  # of locations.list: in the discovery documents, in no message
    }
)
_ANSWERING = frozenset({"alt", "fields", "prettyPrint"})
_PARAMETERS_MAX = 2000
_LEAVES = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask"})


@dataclass(frozen=True, slots=True)
class Query:
    """A query, taken apart."""

    enums_as_integers: bool
    pretty: bool
    selection: str
    """The `fields` parameter; empty: everything."""
    parameters: Sequence[tuple[str, str]]


def query_of(raw: bytes) -> Query:
    """Raises InvalidArgument for text that is not UTF-8 and for forms of answer other than JSON."""
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise InvalidArgument("The query of the request is not valid UTF-8.") from None
    except ValueError:
        raise InvalidArgument(f"The query of the request has more than {_PARAMETERS_MAX} parameters.") from None
    standard: dict[str, str] = {}
    parameters = []
    for name, value in pairs:
        plain = name.removeprefix("$")
        if plain in _ANSWERING:
            standard[plain] = value
        elif plain not in _IGNORED:
            parameters.append((name, value))
    return Query(
        enums_as_integers=_enums_as_integers(standard.get("alt", "json")),
        pretty=standard.get("prettyPrint", "false").lower() in ("true", "1"),
        selection=standard.get("fields", ""),
        parameters=parameters,
    )


def _enums_as_integers(alt: str) -> bool:
    """Read `alt`: `json`, perhaps with `enum-encoding=int`."""
    form, *options = alt.lower().split(";")
    if form.strip() not in ("json", ""):
        raise InvalidArgument(f"The value {alt!r} of the parameter alt is not supported: use json.")
    return "enum-encoding=int" in (option.strip() for option in options)


def bind(message: Any, parameters: Sequence[tuple[str, str]], bound: Collection[str]) -> None:
    """Set the fields that the parameters name; those whose first step is in `bound` are the path's or the body's."""
    faults = Faults()
    values: dict[str, list[str]] = {}
    for name, value in parameters:
        values.setdefault(name, []).append(value)
    taken: set[str] = set()
    for name, texts in values.items():
        target = _target(message, name, bound)
        if target is None:
            faults.unknown(
                name, "", f"Cannot bind query parameter. Field '{name}' could not be found in request message."
            )
            continue
        if target.path in taken:
            faults.unknown(name, "", "The field is already set under its other spelling.")
            continue
        taken.add(target.path)
        _set(target, name, texts, faults)
    faults.check()


class _Target(NamedTuple):
    """A leaf that a parameter names."""

    owner: Any
    """The message that holds it."""
    field: FieldDescriptor
    path: str


def _target(message: Any, name: str, bound: Collection[str]) -> _Target | None:
    """The leaf of a dotted name; None where there is none that a parameter may set."""
    owner, path = message, []
    *steps, last = name.split(".")
    for step in steps:
        field = fields_of(owner.DESCRIPTOR).get(step)
        if field is None or field.message_type is None or field.is_repeated:
            return None
        path.append(field.name)
        owner = getattr(owner, field.name)
    field = fields_of(owner.DESCRIPTOR).get(last)
    if field is None or (field.message_type is not None and field.message_type.full_name not in _LEAVES):
        return None
    path.append(field.name)
    return None if path[0] in bound else _Target(owner, field, ".".join(path))


def _set(target: _Target, name: str, texts: list[str], faults: Faults) -> None:
    owner, field, path = target
    if field.is_repeated:
        set_field(owner, field, texts, path, faults)
    elif field.message_type is not None and field.message_type.full_name == "google.protobuf.FieldMask":
        set_field(owner, field, ",".join(texts), path, faults)
    elif len(texts) > 1:
        faults.unknown(name, "", "Proto field is not repeating, cannot start list.")
    else:
        set_field(owner, field, texts[0], path, faults)
