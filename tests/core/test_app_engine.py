"""App Engine without App Engine: what an operator's mapping means for a routing, and what its host is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.app_engine import Application, Service, hosted, routing_host
from taskbell.core.instant import HOUR, MINUTE
from taskbell.core.target import Routing

MAPPED = Application.parse(
    [
        "default=http://main",
        "default:v2=http://main-v2",
        "worker=http://worker;manual",
        "worker:v1=http://worker-v1",
        "worker:v1:0=http://worker-v1-0;basic",
        "worker::1=http://worker-1",
        "old:v9=http://old-v9;flexible",
    ]
)


@pytest.mark.parametrize(
    ("routing", "base_url"),
    [
        # Nothing, or the default by its name: the default version of the default service.
        (Routing(), "http://main"),
        (Routing("default"), "http://main"),
        (Routing("", "v2"), "http://main-v2"),
        (Routing("default", "v2", "7"), "http://main-v2"),
        (Routing("", "v3"), "http://main"),
        # The most specific match wins.
        (Routing("worker"), "http://worker"),
        (Routing("worker", "v1"), "http://worker-v1"),
        (Routing("worker", "v1", "0"), "http://worker-v1-0"),
        (Routing("worker", "v1", "1"), "http://worker-v1"),
        (Routing("worker", "v2"), "http://worker"),
        (Routing("worker", "", "1"), "http://worker-1"),
        (Routing("worker", "", "2"), "http://worker"),
        (Routing("worker", host="ignored"), "http://worker"),
        # What is not there falls to the default version of the default service.
        (Routing("absent"), "http://main"),
        (Routing("absent", "v2"), "http://main"),
        (Routing("old"), "http://main"),
        (Routing("Worker"), "http://main"),
        (Routing("old", "v9"), "http://old-v9"),
    ],
)
def test_the_most_specific_match_wins_and_the_default_takes_the_rest(routing: Routing, base_url: str) -> None:
    """Service, version and instance; then without the instance; then the service alone."""
    found = MAPPED.resolve(routing)

    assert found is not None
    assert found.base_url == base_url


@pytest.mark.parametrize(
    ("scaling", "deadline"),
    [
        ("", 10 * MINUTE),
        (";automatic", 10 * MINUTE),
        (";manual", 24 * HOUR),
        (";basic", 24 * HOUR),
        (";flexible", 60 * MINUTE),
    ],
)
def test_scaling_gives_the_default_deadline(scaling: str, deadline: int) -> None:
    """Ten minutes, a day, an hour; and a base URL may have a path, whose last slash goes."""
    application = Application.parse([f"default=https://host:8443/base/{scaling}"])

    assert application.resolve(Routing()) == Service("https://host:8443/base", deadline)


@pytest.mark.parametrize(
    ("routing", "base_url"),
    [
        (Routing(), "http://default.local/default"),
        (Routing("worker", "v1", "0"), "http://worker.local/worker"),
        (Routing("named"), "http://named"),
        # Only what can be a service's id goes into an address.
        (Routing("evil.example/#"), "http://default.local/default"),
        (Routing("a@b"), "http://default.local/default"),
        (Routing("Worker"), "http://default.local/default"),
        (Routing("w" * 64), "http://default.local/default"),
        (Routing("-worker"), "http://default.local/default"),
    ],
)
def test_a_wildcard_takes_every_other_service(routing: Routing, base_url: str) -> None:
    """With its id in place of {service}, wherever that stands."""
    application = Application.parse(["*=http://{service}.local/{service};manual", "named=http://named"])

    found = application.resolve(routing)

    assert found is not None
    assert found.base_url == base_url


@given(st.builds(Routing, st.text(), st.text(), st.text()))
def test_whatever_callers_ask_for_goes_where_the_operator_said(routing: Routing) -> None:
    """No text of a caller leaves the hosts of the mapping."""
    application = Application.parse(["*=http://{service}.local:1", "default=http://main"])

    found = application.resolve(routing)

    assert found is not None
    assert found.base_url == "http://main" or found.base_url.endswith(".local:1")
    assert not set("/@#?\\ \n") & set(found.base_url.removeprefix("http://"))


@pytest.mark.parametrize("entries", [[], ["worker=http://worker"]])
def test_without_a_default_what_is_not_there_goes_nowhere(entries: list[str]) -> None:
    """And so does the default service."""
    application = Application.parse(entries)

    assert application.resolve(Routing("absent", "v1")) is None
    assert application.resolve(Routing()) is None


GRAMMAR = r"^expected SERVICE\[:VERSION\[:INSTANCE\]\]=URL\[;SCALING\] or \*=URL\[;SCALING\], not "


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("worker", GRAMMAR),
        ("=http://worker", GRAMMAR),
        ("worker=", GRAMMAR),
        ("a b=http://worker", GRAMMAR),
        ("worker:v1:0:9=http://worker", GRAMMAR),
        ("worker:v1:=http://worker", GRAMMAR),
        ("*:v1=http://worker", GRAMMAR),
        ("worker=http://worker;manual;basic", GRAMMAR),
        ("worker=http://worker;quick", "^expected one of automatic, manual, basic, flexible behind the semicolon"),
        ("worker=worker:8080", "^expected a base URL such as http://127.0.0.1:8080, not 'worker:8080'"),
        ("worker=http://:80", "^expected a base URL .* has no host"),
        ("worker=http://{service}", "^expected a base URL .* characters that no host may have"),
        ("worker=http://worker:http", "^expected a base URL .* invalid port"),
        ("worker=http://worker?a=b", "^expected a base URL without a query or a fragment"),
        ("worker=http://worker/#a", "^expected a base URL without a query or a fragment"),
        ("*=http://{version}", "^expected a base URL"),
    ],
)
def test_a_wrong_entry_is_refused_with_what_was_expected(entry: str, expected: str) -> None:
    """At the start, not at the first attempt."""
    with pytest.raises(ValueError, match=expected):
        Application.parse([entry])


def test_an_entry_may_come_once() -> None:
    """Two addresses for one service are a mistake, and not a choice."""
    with pytest.raises(ValueError, match=r"^expected each service, version and instance once"):
        Application.parse(["worker=http://a", "worker:=http://b"])


@pytest.mark.parametrize(
    ("project", "routing", "host"),
    [
        ("shop", Routing(), "shop.appspot.com"),
        ("shop", Routing("worker"), "worker.shop.appspot.com"),
        ("shop", Routing("", "v1"), "v1.shop.appspot.com"),
        ("shop", Routing("worker", "v1"), "v1.worker.shop.appspot.com"),
        ("shop", Routing("worker", "v1", "0"), "0.v1.worker.shop.appspot.com"),
        ("shop", Routing("worker", host="old"), "worker.shop.appspot.com"),
        ("example.com:shop", Routing("worker"), "worker.shop.example.com.a.appspot.com"),
    ],
)
def test_hosts_are_composed_as_documented(project: str, routing: Routing, host: str) -> None:
    """Instance, version, service, application; joined by dots, without what is empty."""
    assert routing_host(project, routing) == host
    assert hosted(f"projects/{project}/locations/l/queues/q", routing).host == host
