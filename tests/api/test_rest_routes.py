from __future__ import annotations

import re

import pytest

from taskbell.api.methods import Method, all_methods
from taskbell.api.rest_routes import Routes
from taskbell.core.errors import InvalidArgument, NotFound, Unimplemented

ROUTES = Routes(all_methods())
L = "projects/p/locations/l"


def found(verb: str, path: str) -> tuple[str, dict[str, str]]:
    """The RPC of a request, and what its path binds."""
    match = ROUTES.find(verb, path.encode())
    rpc = (match.method.grpc or "").rpartition("/")[2]
    return rpc, {".".join(binding.field): binding.value for binding in match.bindings}


@pytest.mark.parametrize(
    ("verb", "path", "rpc", "bound"),
    [
        ("GET", f"/v2/{L}/queues", "ListQueues", {"parent": L}),
        ("POST", f"/v2/{L}/queues", "CreateQueue", {"parent": L}),
        ("GET", f"/v2/{L}/queues/q", "GetQueue", {"name": f"{L}/queues/q"}),
        ("PATCH", f"/v2/{L}/queues/q", "UpdateQueue", {"queue.name": f"{L}/queues/q"}),
        ("DELETE", f"/v2/{L}/queues/q", "DeleteQueue", {"name": f"{L}/queues/q"}),
        ("POST", f"/v2/{L}/queues/q:purge", "PurgeQueue", {"name": f"{L}/queues/q"}),
        ("POST", f"/v2/{L}/queues/q:getIamPolicy", "GetIamPolicy", {"resource": f"{L}/queues/q"}),
        ("GET", f"/v2/{L}/queues/q/tasks", "ListTasks", {"parent": f"{L}/queues/q"}),
        ("POST", f"/v2/{L}/queues/q/tasks:batchCreate", "BatchCreateTasks", {"parent": f"{L}/queues/q"}),
        ("POST", f"/v2/{L}/queues/q/tasks/t:run", "RunTask", {"name": f"{L}/queues/q/tasks/t"}),
        ("GET", f"/v2/{L}/cmekConfig", "GetCmekConfig", {"name": f"{L}/cmekConfig"}),
        ("PATCH", f"/v2/{L}/cmekConfig", "UpdateCmekConfig", {"cmek_config.name": f"{L}/cmekConfig"}),
        ("GET", "/v2/projects/p/locations", "ListLocations", {"name": "projects/p"}),
        ("GET", f"/v2/{L}", "GetLocation", {"name": L}),
        ("GET", f"/v2/{L}/operations/o", "GetOperation", {"name": f"{L}/operations/o"}),
        # Project ids of domains, plain and escaped.
        ("GET", "/v2/projects/a.b:c/locations", "ListLocations", {"name": "projects/a.b:c"}),
        ("GET", "/v2/projects/a.b%3Ac/locations", "ListLocations", {"name": "projects/a.b:c"}),
        ("POST", "/v2/projects/a:b/locations/l/queues/q:pause", "PauseQueue",
         {"name": "projects/a:b/locations/l/queues/q"}),
        # Segments are decoded once.
        ("GET", f"/v2/{L}/queues/%71", "GetQueue", {"name": f"{L}/queues/q"}),
        ("GET", f"/v2/{L}/queues/%2571", "GetQueue", {"name": f"{L}/queues/%71"}),
        ("GET", f"/v2/{L}/queues/%C3%BC", "GetQueue", {"name": f"{L}/queues/ü"}),
        # An encoded slash makes no segment, and no longer name either.
        ("GET", f"/v2/{L}/queues/q%2Ftasks%2ft", "GetQueue", {"name": f"{L}/queues/q%2Ftasks%2ft".replace("2f", "2F")}),
        # What looks like a verb and is none belongs to the id.
        ("GET", f"/v2/{L}/queues/q:explode", "GetQueue", {"name": f"{L}/queues/q:explode"}),
    ],
)  # fmt: skip
def test_path_and_verb_name_one_row(verb: str, path: str, rpc: str, bound: dict[str, str]) -> None:
    """A request means one RPC, and its path binds the fields that the template names."""
    assert found(verb, path) == (rpc, bound)


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/"),
        ("GET", ""),
        ("GET", "/v2"),
        ("GET", "/v3/projects/p/locations"),
        ("GET", "/v2/projects"),
        ("GET", f"/v2/{L}/queues/"),
        ("GET", f"/v2/{L}//queues"),
        ("GET", f"//v2/{L}/queues"),
        ("GET", "/v2/projects//locations"),
        ("GET", f"/v2/{L}/Queues"),
        ("PUT", f"/v2/{L}/queues/q"),
        ("GET", f"/v2/{L}/queues/q:pause"),
        ("POST", f"/v2/{L}/queues/q"),
        ("POST", f"/v2/{L}/queues/q:explode"),
        ("POST", f"/v2/{L}/queues/:pause"),
        ("POST", f"/v2/{L}/queues/q%3Apause"),
        ("GET", "/v2/projects/p/../p/locations"),
    ],
)
def test_other_paths_and_verbs_are_not_found(verb: str, path: str) -> None:
    """What the table does not hold is NOT_FOUND, and the text says what was asked for."""
    with pytest.raises(NotFound, match="No method of this API"):
        ROUTES.find(verb, path.encode())


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("POST", f"/v2/{L}/queues/q/tasks:buffer"),
        ("POST", f"/v2/{L}/queues/q/tasks/t:buffer"),
        ("GET", f"/v2beta3/{L}/queues"),
        ("GET", f"/v2beta2/{L}/queues"),
        ("POST", "/api/queue/update"),
    ],
)
def test_what_is_known_and_not_built_says_so(verb: str, path: str) -> None:
    """Calls of the API that this server does not answer yet are UNIMPLEMENTED, never NOT_FOUND."""
    with pytest.raises(Unimplemented, match="not implemented by this server"):
        ROUTES.find(verb, path.encode())


def test_a_path_that_is_not_utf_8_is_refused() -> None:
    """A name is text."""
    with pytest.raises(InvalidArgument, match="UTF-8"):
        ROUTES.find("GET", f"/v2/{L}/queues/%ff".encode())


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.path)
def test_every_row_is_reached_by_its_own_template(method: Method) -> None:
    """No row hides another: a path made from a template finds that row."""
    path = re.sub(r"\{[^=]+=([^}]*)\}", r"\1", method.path).replace("*", "x").encode()

    if method.handler is None:
        with pytest.raises(Unimplemented):
            ROUTES.find(method.verb, path)
    else:
        assert ROUTES.find(method.verb, path).method.grpc == method.grpc
