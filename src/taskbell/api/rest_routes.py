"""Which row of the table of methods a REST request means, and which fields its path binds.

Templates are those of google.api.http: literals, `*` for one segment, `{field=pattern}`, perhaps `:verb` at the end.
A path is split on its raw slashes before anything is decoded, and each segment is decoded once. As google.api.http has
it, `%2F` stays encoded in a variable of several segments: there it could forge a longer name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from taskbell.api.methods import UNBUILT_PREFIXES, Method
from taskbell.core.errors import InvalidArgument, NotFound, Unimplemented

_PIECE = re.compile(r"\{([^=}]+)=([^}]*)\}|([^/{}]+)")
_SLASH = re.compile(rb"%2[fF]")


class Binding(NamedTuple):
    """A field that the path sets."""

    field: tuple[str, ...]
    value: str


class Match(NamedTuple):
    """What a request means."""

    method: Method
    bindings: list[Binding]


@dataclass(frozen=True, slots=True)
class Route:
    """One row's template, taken apart."""

    method: Method
    segments: tuple[str, ...]
    variables: tuple[tuple[tuple[str, ...], int, int], ...]
    """Each variable's field and the segments that it spans."""
    suffix: str

    def bindings(self, raw: Sequence[bytes]) -> list[Binding] | None:
        """The fields that a path of as many segments binds, or None where it does not fit."""
        for wanted, segment in zip(self.segments, raw, strict=True):
            if (not segment) if wanted == "*" else segment != wanted.encode():
                return None
        return [Binding(field, _value(raw[start:end])) for field, start, end in self.variables]


class Routes:
    """The table by path."""

    def __init__(self, methods: Iterable[Method]) -> None:
        routes = [route_of(method) for method in methods]
        self._suffixes = {route.suffix for route in routes}
        self._by_shape: dict[tuple[int, str], list[Route]] = defaultdict(list)
        for route in routes:
            self._by_shape[len(route.segments), route.suffix].append(route)

    def find(self, verb: str, raw_path: bytes) -> Match:
        """The row of a request. NotFound: no such path and verb. Unimplemented: known, not built here."""
        for route, bindings in self._fitting(raw_path):
            if route.method.verb == verb:
                if route.method.handler is None:
                    raise _unbuilt(verb, raw_path)
                return Match(route.method, bindings)
        if raw_path.startswith(tuple(prefix.encode() for prefix in UNBUILT_PREFIXES)):
            raise _unbuilt(verb, raw_path)
        raise NotFound(f"No method of this API is called as {verb} {_shown(raw_path)}.")

    def verbs(self, raw_path: bytes) -> list[str]:
        """The HTTP verbs that a path knows; none for an unknown path."""
        return sorted({route.method.verb for route, _ in self._fitting(raw_path)})

    def _fitting(self, raw_path: bytes) -> Iterable[tuple[Route, list[Binding]]]:
        segments = raw_path.removeprefix(b"/").split(b"/")
        # A project id may hold colons, so only a known suffix of the last segment is one.
        head, _, tail = segments[-1].rpartition(b":")
        suffix = tail.decode("latin-1") if head else ""
        if suffix and suffix in self._suffixes:
            segments[-1] = head
        else:
            suffix = ""
        for route in self._by_shape.get((len(segments), suffix), ()):
            bindings = route.bindings(segments)
            if bindings is not None:
                yield route, bindings


def route_of(method: Method) -> Route:
    """Take a row's template apart."""
    path, _, suffix = method.path.partition(":")
    segments: list[str] = []
    variables = []
    for field, pattern, literal in _PIECE.findall(path):
        start = len(segments)
        segments.extend((pattern or literal).split("/"))
        if field:
            variables.append((tuple(field.split(".")), start, len(segments)))
    return Route(method, tuple(segments), tuple(variables), suffix)


def _value(raw: Sequence[bytes]) -> str:
    try:
        if len(raw) == 1:
            return unquote_to_bytes(raw[0]).decode()
        return b"/".join(unquote_to_bytes(_SLASH.sub(b"%252F", segment)) for segment in raw).decode()
    except UnicodeDecodeError:
        raise InvalidArgument("The path of the request is not valid UTF-8.") from None


def _unbuilt(verb: str, raw_path: bytes) -> Unimplemented:
    return Unimplemented(f"The method {verb} {_shown(raw_path)} is not implemented by this server.")


def _shown(raw_path: bytes) -> str:
    text = raw_path.decode("ascii", "backslashreplace")
    return text if len(text) <= 200 else text[:200] + "..."
