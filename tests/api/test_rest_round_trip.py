"""Every row's request, sent as JSON clients send it, arrives as the message it was."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.empty_pb2 import Empty
from hypothesis import given, settings
from hypothesis import strategies as st

from taskbell.api.methods import Method, all_methods
from taskbell.api.rest import request_of
from taskbell.api.rest_query import query_of
from taskbell.api.rest_routes import Routes, route_of

BUILT = [method for method in all_methods() if method.handler is not None]
ROUTES = Routes(BUILT)

_BITS = {
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM), (-(2**31), 2**31 - 1)),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_MASK_PATH = st.from_regex(r"[a-z]{1,5}(_[a-z]{1,5}){0,2}(\.[a-z]{1,5}){0,2}", fullmatch=True)


def _scalar(draw: st.DrawFn, field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw(st.binary(max_size=20))
    if field.type == FieldDescriptor.TYPE_STRING:
        return draw(st.text(max_size=10))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return draw(st.booleans())
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return draw(st.floats(allow_nan=False, width=32))
    if field.enum_type is not None:
        return draw(st.sampled_from([value.number for value in field.enum_type.values]) | st.integers(100, 2**31 - 1))
    return draw(st.integers(*_BITS[field.cpp_type]))


def _fill(draw: st.DrawFn, message: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.FieldMask":
        message.paths.extend(draw(st.lists(_MASK_PATH, max_size=3)))
        return
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        message.seconds, message.nanos = draw(st.integers(0, 2**37)), draw(st.integers(0, 999_999_999))
        return
    if name == "google.protobuf.Any":
        message.Pack(Empty())
        return
    oneofs: set[str] = set()
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if (oneof is not None and oneof.name in oneofs) or not draw(st.booleans()):
            continue
        if oneof is not None:
            oneofs.add(oneof.name)
        _fill_field(draw, message, field)


def _fill_field(draw: st.DrawFn, message: Any, field: FieldDescriptor) -> None:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for key in draw(st.lists(st.text(max_size=5), max_size=3)):
            value[key] = draw(st.text(max_size=5))
    elif field.is_repeated:
        for _ in range(draw(st.integers(0, 2))):
            if field.message_type is None:
                value.append(_scalar(draw, field))
            else:
                _fill(draw, value.add())
    elif field.message_type is not None:
        value.SetInParent()
        _fill(draw, value)
    else:
        setattr(message, field.name, _scalar(draw, field))


@st.composite
def requests(draw: st.DrawFn, method: Method) -> Any:
    """A request of a row, its path variables set to names that fit the template."""
    request = method.request()
    _fill(draw, request)
    route = route_of(method)
    for field, start, end in route.variables:
        steps = [
            draw(st.text(min_size=1, max_size=6)).replace("/", "+") if segment == "*" else segment
            for segment in route.segments[start:end]
        ]
        owner = request
        for step in field[:-1]:
            owner = getattr(owner, step)
        setattr(owner, field[-1], "/".join(steps))
    return request


def target_and_body(method: Method, request: Any, *, proto_names: bool, integers: bool) -> tuple[str, bytes, bytes]:
    """Path, query and body, made as clients of google.api.http make them."""
    to_dict = partial(
        json_format.MessageToDict, preserving_proto_field_name=proto_names, use_integers_for_enums=integers
    )
    rest = type(request)()
    rest.CopyFrom(request)
    route = route_of(method)
    segments = list(route.segments)
    for field, start, end in route.variables:
        owner, kept = request, rest
        for step in field[:-1]:
            owner, kept = getattr(owner, step), getattr(kept, step)
        segments[start:end] = [quote(step, safe="") for step in getattr(owner, field[-1]).split("/")]
        if field[0] != method.body:
            kept.ClearField(field[-1])
    path = "/" + "/".join(segments) + (f":{route.suffix}" if route.suffix else "")
    if method.body == "*":
        return path, b"", json.dumps(to_dict(rest)).encode()
    body = b""
    if method.body and rest.HasField(method.body):
        body = json.dumps(to_dict(getattr(rest, method.body))).encode()
        rest.ClearField(method.body)
    pairs = to_dict(rest)
    query = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in pairs.items()})
    return path, query.encode(), body


@pytest.mark.parametrize("method", BUILT, ids=lambda method: str(method.grpc).rpartition("/")[2])
@settings(max_examples=30, deadline=None)
@given(st.data(), st.booleans(), st.booleans())
def test_requests_survive_json(
    method: Method,
    data: st.DataObject,
    proto_names: bool,  # noqa: FBT001 - drawn
    integers: bool,  # noqa: FBT001 - drawn
) -> None:
    """Message to JSON, path and query, and back, for every row and in both dialects."""
    request = data.draw(requests(method))
    path, query, body = target_and_body(method, request, proto_names=proto_names, integers=integers)

    match = ROUTES.find(method.verb, path.encode())

    assert match.method is method
    assert request_of(method, match.bindings, query_of(query).parameters, body) == request
