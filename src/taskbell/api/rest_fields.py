"""Partial answers: the `fields` parameter, `queues(name,state),nextPageToken` or `queues/name`.

The selection is read against the response's type before the call is made, so that a misspelt one has no effect, and
laid over the answer afterwards. Lists are looked through; `*` is every field.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from taskbell.api.rest_json import fields_of
from taskbell.core.errors import InvalidArgument

Selection = dict[str, "Selection | None"]
"""Field names as the answer has them; None stands for all that is below."""

_TOKEN = re.compile(r"\s*([A-Za-z0-9_@*.$-]+|[(),/])")
_DEPTH_MAX = 30


def selection_of(text: str, descriptor: Descriptor) -> Selection:
    """Read a selection. Raises InvalidArgument for one that is malformed or names no field."""
    tokens = _tokens(text)
    selection = _list(tokens, descriptor, 0)
    if tokens:
        raise _invalid(tokens[-1])
    return selection


def selected(value: Any, selection: Selection | None) -> Any:
    """The selected part of a JSON value."""
    if isinstance(value, list):
        return [selected(item, selection) for item in value]
    if selection is None or not isinstance(value, dict):
        return value
    result = {}
    for name, item in value.items():
        below = selection.get(name, selection.get("*", ...))
        if below is not ...:
            result[name] = selected(item, below)
    return result


def _tokens(text: str) -> list[str]:
    """The tokens in reverse, so that the next one is popped."""
    tokens, end = [], 0
    text = text.rstrip()
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None:
            raise _invalid(text[end:])
        tokens.append(match[1])
        end = match.end()
    return tokens[::-1]


def _list(tokens: list[str], descriptor: Descriptor | None, depth: int) -> Selection:
    selection: Selection = {}
    while True:
        _item(tokens, descriptor, depth, selection)
        if not tokens or tokens[-1] != ",":
            return selection
        tokens.pop()


def _item(tokens: list[str], descriptor: Descriptor | None, depth: int, into: Selection) -> None:
    """One name with what is selected below it, merged into what was selected before."""
    if not tokens or tokens[-1] in "(),/" or depth > _DEPTH_MAX:
        raise _invalid(tokens[-1] if tokens else "")
    name, inner = _named(tokens.pop(), descriptor)
    below: Selection | None = None
    if tokens and tokens[-1] == "/":
        tokens.pop()
        below = {}
        _item(tokens, inner, depth + 1, below)
    elif tokens and tokens[-1] == "(":
        tokens.pop()
        below = _list(tokens, inner, depth + 1)
        if not tokens or tokens.pop() != ")":
            raise _invalid(name)
    earlier = into.get(name, below)
    into[name] = None if earlier is None or below is None else {**earlier, **below}


def _named(name: str, descriptor: Descriptor | None) -> tuple[str, Descriptor | None]:
    """A field's name in the answer and the type below it; None where types end: maps, Any, scalars, `*`."""
    if descriptor is None or name == "*":
        return name, None
    field = fields_of(descriptor).get(name)
    if field is None:
        raise _invalid(name)
    return field.json_name, _below(field)


def _below(field: FieldDescriptor) -> Descriptor | None:
    message: Descriptor | None = field.message_type
    if message is None or message.GetOptions().map_entry or message.file.package == "google.protobuf":
        return None
    return message


def _invalid(what: str) -> InvalidArgument:
    return InvalidArgument(f"Invalid field selection {what[:100]}")
