"""A server in this process, called over gRPC or REST: one call is the same for a test, whichever way it goes.

Everything is real from the adapters inwards but the network to handlers; time stands still until a test moves it. How
a request becomes REST is read off the table of methods, so that a case is written once and runs on both transports.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode

from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from taskbell.api.errors import GRPC_NUMBER, HTTP_STATUS
from taskbell.api.grpc import GrpcAdapter
from taskbell.api.methods import Method, all_methods
from taskbell.api.rest import RestAdapter
from taskbell.core.instant import HOUR
from taskbell.loops.ticker import Ticker
from taskbell.service.access import AccessService
from taskbell.service.jobs import JobService
from taskbell.service.locations import LocationService
from taskbell.service.operations import OperationService
from taskbell.service.services import Services
from tests.loops.stage import Stage

PROJECT = "projects/p"
LOCATION = f"{PROJECT}/locations/us-central1"
QUEUE = f"{LOCATION}/queues/q"
TASK = f"{QUEUE}/tasks/t"
URL = "http://h/"
MAX_REQUEST_BYTES = 10 * 1024 * 1024

_METHODS = {
    method.grpc.rpartition("/")[2]: method
    for method in all_methods()
    if method.grpc and "/scheduler." not in method.grpc and method.path.startswith("/v2/")
}
_NAME_OF_NUMBER = {number: name for name, number in GRPC_NUMBER.items()}
_FIELD = re.compile(r"\{([a-z_.]+)=[^}]*\}")


@dataclass(frozen=True)
class Refused(Exception):
    """A call that was refused: the code's name, the text, and the descriptions of help links."""

    code: str
    message: str
    help: tuple[str, ...] = ()


class Wire:
    """One server and one way to call it."""

    def __init__(self, transport: str) -> None:
        """Over `grpc` or `rest`."""
        self.transport = transport
        self.stage = stage = Stage()
        self.clock = stage.clock
        ticker = Ticker(stage.using, stage.clock, catch_up=HOUR, max_open=1000)
        services = Services(
            queues=stage.queues,
            tasks=stage.tasks,
            jobs=JobService(stage.engine, ticker, stage.clock, stage.limits, forced_header="next"),
            access=AccessService(stage.engine),
            locations=LocationService(stage.engine, ("us-central1", "europe-west1")),
            operations=OperationService(),
            clock=stage.clock,
            limits=stage.limits,
        )
        adapter = GrpcAdapter if transport == "grpc" else RestAdapter
        self.adapter = adapter(all_methods(), services, MAX_REQUEST_BYTES)

    async def call(self, rpc: str, **fields: Any) -> Any:
        """Call an RPC with the fields of its request; the response, or Refused."""
        method = _METHODS[rpc]
        request = json_or_message(method.request, fields)
        if self.transport == "grpc":
            return await self._grpc(method, request)
        return await self._rest(method, request)

    # What most cases begin with.

    async def create_queue(self, queue: str = QUEUE, **fields: Any) -> Any:
        """A queue."""
        parent = queue.rpartition("/queues/")[0]
        return await self.call("CreateQueue", parent=parent, queue={"name": queue, **fields})

    async def create_paused_queue(self, queue: str = QUEUE) -> Any:
        """A queue that dispatches nothing."""
        await self.create_queue(queue)
        return await self.call("PauseQueue", name=queue)

    async def create_task(self, *, parent: str = QUEUE, view: int = 0, **fields: Any) -> Any:
        """A task, to an address where nobody listens unless the fields say otherwise."""
        if not {"http_request", "app_engine_http_request"} & set(fields):
            fields["http_request"] = {"url": URL}
        return await self.call("CreateTask", parent=parent, task=fields, response_view=view)

    async def refused(self, rpc: str, **fields: Any) -> Refused:
        """The refusal of a call that must be refused."""
        try:
            answer = await self.call(rpc, **fields)
        except Refused as refusal:
            return refusal
        raise AssertionError(f"{rpc} was answered: {answer}")

    async def create_task_refused(self, *, parent: str = QUEUE, **fields: Any) -> Refused:
        """The refusal of a create."""
        if not {"http_request", "app_engine_http_request", "payload"} & set(fields):
            fields["http_request"] = {"url": URL}
        fields.pop("payload", None)
        return await self.refused("CreateTask", parent=parent, task=fields)

    # Transports.

    async def exchange(
        self, verb: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """One ASGI exchange: the status, headers and trailers together, and the body."""
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "http_version": "2",
            "method": verb,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": list(headers),
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.adapter(scope, receive, send)
        found: dict[bytes, bytes] = {}
        for message in sent:
            found.update(message.get("headers", []))
        return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent)

    async def _grpc(self, method: Method, request: Any) -> Any:
        assert method.grpc is not None
        data = request.SerializeToString()
        status, headers, body = await self.exchange(
            "POST",
            method.grpc,
            [(b"content-type", b"application/grpc"), (b"te", b"trailers")],
            b"\0" + len(data).to_bytes(4, "big") + data,
        )
        assert status == 200
        number = int(headers[b"grpc-status"])
        if number:
            message = unquote(headers[b"grpc-message"].decode())
            raise Refused(_NAME_OF_NUMBER[number], message, _help(headers.get(b"grpc-status-details-bin"), message))
        assert body[0] == 0
        assert int.from_bytes(body[1:5], "big") == len(body) - 5
        response = method.response()
        response.ParseFromString(body[5:])
        return response

    async def _rest(self, method: Method, request: Any) -> Any:
        target, body = transcoded(method, request)
        status, headers, answer = await self.exchange(
            method.verb, target, [(b"content-type", b"application/json"), (b"host", b"h")], body
        )
        assert headers[b"content-type"].startswith(b"application/json")
        value = json.loads(answer)
        if status != 200:
            error = value["error"]
            assert error["code"] == status == HTTP_STATUS[error["status"]]
            links = [link["description"] for detail in error.get("details", ()) for link in detail["links"]]
            raise Refused(error["status"], error["message"], tuple(links))
        response = method.response()
        json_format.ParseDict(value, response)
        return response


def json_or_message(kind: Any, fields: dict[str, Any]) -> Any:
    """A request from keyword arguments, where messages are nested dicts, and maps and bytes are what they are."""
    request = kind()
    _fill(request, fields)
    return request


def _fill(message: Any, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        current = getattr(message, name)
        if isinstance(value, dict) and not field.is_repeated:
            current.SetInParent()
            _fill(current, value)
        elif isinstance(value, dict):
            current.update(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _fill(current.add(), item)
                else:
                    current.append(item)
        elif field.message_type is not None:
            current.CopyFrom(value)
        else:
            setattr(message, name, value)


def transcoded(method: Method, request: Any) -> tuple[str, bytes]:
    """The REST target and body of a request, as Google's own generated transports build them."""
    rest = type(request)()
    rest.CopyFrom(request)
    found = _FIELD.search(method.path)
    assert found is not None
    owner = rest
    *steps, last = found[1].split(".")
    for step in steps:
        owner = getattr(owner, step)
    value = getattr(owner, last)
    owner.ClearField(last)
    path = method.path.replace(found[0], quote(value, safe="/:"))
    fields = json_format.MessageToDict(rest, use_integers_for_enums=True)
    if method.body == "*":
        return path, json.dumps(fields).encode()
    body = b""
    if method.body:
        body = json.dumps(fields.pop(json_name(method.body), {})).encode()
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields.items()}
    query = urlencode([("$alt", "json;enum-encoding=int"), *texts.items()], doseq=True)
    return f"{path}?{query}", body


def json_name(field: str) -> str:
    """A field's name in JSON."""
    head, *rest = field.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _help(details: bytes | None, message: str) -> tuple[str, ...]:
    if details is None:
        return ()
    status = status_pb2.Status()
    status.ParseFromString(base64.b64decode(details + b"=" * (-len(details) % 4)))
    assert status.message == message
    links: list[str] = []
    for detail in status.details:
        help_ = error_details_pb2.Help()
        assert detail.Unpack(help_)
        links += [link.description for link in help_.links]
        assert all(link.url.startswith("https://") for link in help_.links)
    return tuple(links)
