"""Filters of list calls, in the style of Cloud Logging: `state: PAUSED AND rateLimits.maxDispatchesPerSecond > 10`.

    conjunction = disjunction { ["AND"] disjunction }
    disjunction = term { "OR" term }                       so OR binds tighter than AND, as in Cloud Logging
    term        = ("NOT" | "-") term | "(" conjunction ")" | field operator value

A field is a dotted path in either case. Text is compared without regard to case; `:` means "contains" for text, "is
set" with the value `*`, and equality otherwise. Where the message that holds a field is absent, only `!=` and what is
negated hold. Lists are looked through: one element that fits is enough.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from taskbell.api.rest_json import fields_of
from taskbell.api.time_text import NANOS, duration_nanos, timestamp_nanos
from taskbell.core.errors import InvalidArgument

Predicate = Callable[[Any], bool]

_DEPTH_MAX = 50
_LENGTH_MAX = 10_000
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_OPERATOR = re.compile(r"<=|>=|!=|[=<>:]")
_BARE = re.compile(r"[^\s()\"']+")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    ":": operator.eq,
}


class _Value(NamedTuple):
    text: str
    start: int
    is_quoted: bool


def matches(filter_text: str, descriptor: Descriptor) -> Predicate:
    """A predicate over messages of the type; an empty filter lets everything pass. Raises InvalidArgument."""
    if not filter_text.strip():
        return lambda _: True
    if len(filter_text) > _LENGTH_MAX:
        raise InvalidArgument(f"Invalid filter: it may have at most {_LENGTH_MAX} characters.")
    return _Parser(filter_text, descriptor).whole()


class _Parser:
    """Recursive descent over one filter."""

    def __init__(self, text: str, descriptor: Descriptor) -> None:
        self._text = text
        self._descriptor = descriptor
        self._position = 0

    def whole(self) -> Predicate:
        predicate = self._conjunction(0)
        if not self._is_over():
            raise self._expected("the end or another comparison")
        return predicate

    def _conjunction(self, depth: int) -> Predicate:
        parts = [self._disjunction(depth)]
        while not self._is_over() and not self._text.startswith(")", self._position):
            self._take_keyword("AND")
            parts.append(self._disjunction(depth))
        return parts[0] if len(parts) == 1 else lambda message: all(part(message) for part in parts)

    def _disjunction(self, depth: int) -> Predicate:
        parts = [self._term(depth)]
        while self._take_keyword("OR"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else lambda message: any(part(message) for part in parts)

    def _term(self, depth: int) -> Predicate:
        if depth > _DEPTH_MAX:
            raise InvalidArgument(f"Invalid filter: it is nested more than {_DEPTH_MAX} levels deep.")
        if self._take_keyword("NOT") or self._take("-"):
            negated = self._term(depth + 1)
            return lambda message: not negated(message)
        if self._take("("):
            inner = self._conjunction(depth + 1)
            if not self._take(")"):
                raise self._expected("')'")
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        word = self._match(_WORD)
        if word is None or word[0] in ("AND", "OR", "NOT"):
            self._position = word.start() if word else self._position
            raise self._expected("a field")
        fields = self._fields(word[0], word.start())
        found = self._match(_OPERATOR)
        if found is None:
            raise self._expected("an operator (=, !=, <, <=, >, >= or :)")
        return _comparison(fields, found[0], self._value())

    def _fields(self, path: str, start: int) -> list[FieldDescriptor]:
        fields: list[FieldDescriptor] = []
        descriptor: Descriptor | None = self._descriptor
        for step in path.split("."):
            field = fields_of(descriptor).get(step) if descriptor is not None else None
            if field is None:
                self._position = start
                raise self._expected(f"a field of {self._descriptor.name}")
            fields.append(field)
            descriptor = None if _is_leaf(field) else field.message_type
        return fields

    def _value(self) -> _Value:
        self._skip_space()
        start = self._position
        if (quoted := self._match(_QUOTED)) is not None:
            return _Value(_ESCAPE.sub(r"\1", quoted[1] or quoted[2] or ""), start, is_quoted=True)
        if (bare := self._match(_BARE)) is not None:
            return _Value(bare[0], start, is_quoted=False)
        raise self._expected("a value")

    # Tokens.

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._position)
        self._position = space.end() if space else self._position

    def _is_over(self) -> bool:
        self._skip_space()
        return self._position >= len(self._text)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._skip_space()
        match = pattern.match(self._text, self._position)
        if match is not None:
            self._position = match.end()
        return match

    def _take(self, literal: str) -> bool:
        self._skip_space()
        found = self._text.startswith(literal, self._position)
        self._position += len(literal) if found else 0
        return found

    def _take_keyword(self, keyword: str) -> bool:
        self._skip_space()
        word = _WORD.match(self._text, self._position)
        if word is None or word[0] != keyword:
            return False
        self._position = word.end()
        return True

    def _expected(self, what: str) -> InvalidArgument:
        self._skip_space()
        return _expected(what, self._position, self._text[self._position : self._position + 20])


def _expected(what: str, at: int, found: str) -> InvalidArgument:
    return InvalidArgument(f"Invalid filter: expected {what} at character {at + 1}, not {found!r}.")


def _is_leaf(field: FieldDescriptor) -> bool:
    return field.message_type is None or field.message_type.full_name in _TIMES


def _comparison(fields: Sequence[FieldDescriptor], sign: str, value: _Value) -> Predicate:
    """The predicate of one comparison."""
    field = fields[-1]
    if sign == ":" and value.text == "*" and not value.is_quoted:
        return lambda message: any(_is_set(owner, field) for owner in _owners(message, fields[:-1]))
    if not _is_leaf(field):
        raise _expected(f"'*' (only whether {field.json_name} is set can be asked, with :)", value.start, value.text)
    wanted = _wanted(field, value)
    compare = _COMPARE[sign]
    if isinstance(wanted, str) and sign == ":":
        compare = operator.contains
    if sign == "!=":
        return lambda message: all(actual != wanted for actual in _actuals(message, fields))
    return lambda message: any(compare(actual, wanted) for actual in _actuals(message, fields))


def _owners(message: Any, fields: Sequence[FieldDescriptor]) -> Iterator[Any]:
    """The present messages at the end of a path."""
    if not fields:
        yield message
        return
    field, *rest = fields
    if field.is_repeated:
        for item in getattr(message, field.name):
            yield from _owners(item, rest)
    elif message.HasField(field.name):
        yield from _owners(getattr(message, field.name), rest)


def _is_set(owner: Any, field: FieldDescriptor) -> bool:
    if not field.is_repeated and field.has_presence:
        return bool(owner.HasField(field.name))
    return bool(getattr(owner, field.name))


def _actuals(message: Any, fields: Sequence[FieldDescriptor]) -> Iterator[Any]:
    """The values of a leaf, in the form in which they are compared."""
    field = fields[-1]
    for owner in _owners(message, fields[:-1]):
        if field.is_repeated:
            yield from (_comparable(item) for item in getattr(owner, field.name))
        elif field.message_type is None or owner.HasField(field.name):
            yield _comparable(getattr(owner, field.name))


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    return value.seconds * NANOS + value.nanos if hasattr(value, "nanos") else value


def _wanted(field: FieldDescriptor, value: _Value) -> Any:
    """A filter's text as a value that its field can be compared with."""
    if field.message_type is not None:
        read, form = _TIMES[field.message_type.full_name]
        nanos = read(value.text)
        if nanos is None:
            raise _expected(form, value.start, value.text)
        return nanos
    if field.enum_type is not None:
        return _wanted_enum(field.enum_type, value)
    if field.type == FieldDescriptor.TYPE_STRING:
        return value.text.casefold()
    if field.type == FieldDescriptor.TYPE_BOOL:
        if value.text.lower() not in ("true", "false"):
            raise _expected("true or false", value.start, value.text)
        return value.text.lower() == "true"
    if field.type == FieldDescriptor.TYPE_BYTES:
        raise _expected(f"another field ({field.json_name} is not text)", value.start, value.text)
    if not _NUMBER.fullmatch(value.text):
        raise _expected("a number", value.start, value.text)
    return float(value.text)


def _wanted_enum(enum: EnumDescriptor, value: _Value) -> int:
    names = enum.values_by_name
    found = names.get(value.text.upper())
    if found is not None:
        return int(found.number)
    if value.text.isdecimal():
        return int(value.text)
    raise _expected(f"one of {', '.join(names)}", value.start, value.text)


_TIMES: dict[str, tuple[Callable[[str], int | None], str]] = {
    "google.protobuf.Timestamp": (timestamp_nanos, "a timestamp such as 2026-01-31T12:00:00Z"),
    "google.protobuf.Duration": (duration_nanos, "a duration such as 0.100s"),
}
