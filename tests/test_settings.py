"""Settings: where they come from, which wins, and what is said of a wrong one."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.app_engine import Service
from taskbell.core.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from taskbell.core.limits import GOOGLE
from taskbell.core.target import Routing
from taskbell.settings import (
    CONFIG_FILE,
    PREFIX,
    SettingError,
    Settings,
    hand_over,
    parse_span,
    print_span,
    resolve,
    taken_over,
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings file, and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    for item in fields(Settings):
        monkeypatch.delenv(PREFIX + item.name.upper(), raising=False)
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    return tmp_path


def test_defaults_are_googles_limits() -> None:
    """Nothing given: the documented defaults."""
    settings = resolve({})

    assert settings == Settings()
    assert settings.limits == GOOGLE
    assert (settings.store, settings.url, settings.issuer_url) == (
        "sqlite:taskbell.db",
        "http://127.0.0.1:8123",
        "http://127.0.0.1:8123",
    )


def test_flag_wins_over_environment_wins_over_file(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each source is heard where no stronger one speaks."""
    (empty_folder / CONFIG_FILE).write_text('port = 1\nlog_level = "error"\ngrace = "1s"\n')
    monkeypatch.setenv("TASKBELL_PORT", "2")
    monkeypatch.setenv("TASKBELL_LOG_LEVEL", "warning")

    settings = resolve({"port": "3", "log_level": None})

    assert (settings.port, settings.log_level, settings.grace) == (3, "warning", SECOND)


def test_a_named_file_is_read_in_place_of_the_folders(empty_folder: Path) -> None:
    """`--config` replaces `taskbell.toml`; it is not added to it."""
    (empty_folder / CONFIG_FILE).write_text("port = 1\n")
    named = empty_folder / "other.toml"
    named.write_text('locations = ["a", "b"]\ninsecure = true\nhost = "0.0.0.0"\n')

    settings = resolve({}, named)

    assert (settings.port, settings.locations, settings.host) == (8123, ("a", "b"), "0.0.0.0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "there is no setting 'prot'; expected one of"),
        ("port =", "is not a TOML file"),
        ("port = 70000", "port is '70000': expected a whole number from 1 to 65535"),
        ('grace = "soon"', "grace is 'soon': expected a number with a unit"),
        ('insecure = "perhaps"', "insecure is 'perhaps': expected true or false"),
        ("[server]\nport = 1", "server is a table: expected a value, since settings have no sections"),
        ('server = "apache"', "server is 'apache': expected one of auto, pyvoy, hypercorn"),
        ('app_engine = ["worker"]', "app_engine is 'worker': expected SERVICE[:VERSION[:INSTANCE]]=URL[;SCALING]"),
        ('pubsub_endpoint = "pubsub"', "pubsub_endpoint is 'pubsub': expected a URL that begins with http://"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(empty_folder: Path, text: str, said: str) -> None:
    """The sentence names the file, the key, the value, and what was expected."""
    path = empty_folder / "some.toml"
    path.write_text(text)

    with pytest.raises(SettingError) as refused:
        resolve({}, path)

    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)


def test_a_file_that_is_not_text_is_refused(empty_folder: Path) -> None:
    """Bytes that are no UTF-8."""
    path = empty_folder / "some.toml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SettingError, match=r"some\.toml is not a TOML file"):
        resolve({}, path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TASKBELL_PORT", "http", "environment variable TASKBELL_PORT is 'http': expected a number"),
        ("TASKBELL_TASK_TTL", "31", "environment variable TASKBELL_TASK_TTL is '31': expected a number with a unit"),
        ("TASKBELL_MAX_DISPATCHES_PER_SECOND", "0", "expected a number from 0.001 to 1e+06"),
        ("TASKBELL_MAX_DISPATCHES_PER_SECOND", "nan", "expected a number from 0.001 to 1e+06"),
        ("TASKBELL_WINDOW_TASKS", "1.5", "expected a number"),
    ],
)
def test_a_wrong_environment_is_refused_with_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    """The sentence names the variable."""
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingError) as refused:
        resolve({})

    assert said in str(refused.value)


def test_kubernetes_service_links_are_not_meant_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service named taskbell puts TASKBELL_PORT=tcp://... into every pod beside it."""
    monkeypatch.setenv("TASKBELL_PORT", "tcp://10.0.0.1:8123")
    monkeypatch.setenv("TASKBELL_SERVICE_HOST", "10.0.0.1")

    assert resolve({}).port == 8123


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_loopback_is_open_without_asking(host: str, is_loopback: bool) -> None:  # noqa: FBT001 - a table's column
    """Everything else needs --insecure as long as callers are not checked."""
    if is_loopback:
        assert resolve({"host": host}).host == host
    else:
        with pytest.raises(SettingError, match=rf"host '{host}' is not a loopback address .* pass --insecure"):
            resolve({"host": host})
    assert resolve({"host": host, "insecure": "true"}).is_loopback == is_loopback


def test_addresses_of_ipv6_are_bracketed() -> None:
    """In URLs only; and an issuer that is given stands, without a slash at its end."""
    settings = resolve({"host": "::1", "port": "9"})

    assert settings.url == "http://[::1]:9"
    assert replace(settings, issuer="https://tasks.example/").issuer_url == "https://tasks.example"


def test_app_engine_services_are_a_list(empty_folder: Path) -> None:
    """An array in the file, commas elsewhere; resolved as core does it."""
    (empty_folder / CONFIG_FILE).write_text('app_engine = ["default=http://a", "worker=http://b;manual"]\n')

    application = resolve({}).application

    assert application.resolve(Routing()) == Service("http://a", 10 * MINUTE)
    assert application.resolve(Routing("worker")) == Service("http://b", 24 * HOUR)
    assert resolve({"app_engine": "*=http://{service}:1 , x=http://y"}).app_engine == (
        "*=http://{service}:1",
        "x=http://y",
    )


def test_pubsub_is_googles_unless_an_emulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that Google's own clients know, and by ours before it."""
    assert resolve({}).pubsub_url == "https://pubsub.googleapis.com"
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:8085")
    assert resolve({}).pubsub_url == "http://localhost:8085"
    monkeypatch.setenv("TASKBELL_PUBSUB_EMULATOR_HOST", "127.0.0.1:9")
    assert resolve({}).pubsub_url == "http://127.0.0.1:9"
    monkeypatch.setenv("TASKBELL_PUBSUB_EMULATOR_HOST", "")
    assert resolve({"pubsub_endpoint": "http://other"}).pubsub_url == "http://other"


def test_raised_limits_reach_the_rules() -> None:
    """What an operator raises is what core is told; a lowered concurrency lowers the default too."""
    limits = resolve(
        {"max_dispatches_per_second": "5000", "max_concurrent_dispatches": "10", "task_tombstone": "0"}
    ).limits

    assert limits.max_dispatches_per_second == 5000
    assert (limits.max_concurrent_dispatches, limits.default_concurrent_dispatches) == (10, 10)
    assert limits.task_tombstone == 0


def test_settings_cross_the_exec_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server process gets what the command resolved."""
    services = "default=http://a,worker:v1=http://b;manual"
    settings = resolve({"port": "9", "locations": "a,b", "grace": "250ms", "insecure": "true", "app_engine": services})
    environment = hand_over(settings, {"EXTRA": "1"})
    monkeypatch.setattr("os.environ", environment)

    assert environment["EXTRA"] == "1"
    assert taken_over() == settings


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0", 0),
        ("250ms", 250 * MILLISECOND),
        ("1.5s", 1500 * MILLISECOND),
        ("10m", 10 * MINUTE),
        ("24h", DAY),
        ("7d", 7 * DAY),
    ],
)
def test_spans_are_numbers_with_a_unit(text: str, span: int) -> None:
    """And zero, which means none."""
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "1 s", "1w", "1e3s", "0x1s", "1s\n"])
def test_other_spans_are_refused(text: str) -> None:
    """With what was expected."""
    with pytest.raises(ValueError, match="expected a number with a unit"):
        parse_span(text)


@given(st.integers(min_value=0, max_value=400 * DAY // MILLISECOND).map(lambda each: each * MILLISECOND))
def test_printed_spans_read_back(span: int) -> None:
    """Text and span say the same, whatever the unit that keeps it whole."""
    assert parse_span(print_span(span)) == span


@pytest.mark.parametrize(
    ("span", "text"),
    [(0, "0"), (36 * HOUR, "36h"), (90 * SECOND, "90s"), (7 * DAY, "7d"), (1500 * MILLISECOND, "1500ms")],
)
def test_spans_are_printed_in_the_largest_whole_unit(span: int, text: str) -> None:
    """As a person would write them."""
    assert print_span(span) == text


def test_every_setting_explains_itself() -> None:
    """A sentence, a parser that reads the default's own text, and a name that works as flag and variable."""
    for item in fields(Settings):
        default: Any = item.default
        assert item.metadata["help"].endswith("."), item.name
        if default is not None:
            assert item.metadata["parse"](written(item.metadata["parse"], default)) == default, item.name


def written(parse: object, default: Any) -> str:
    """A default as a person would write it."""
    if parse is parse_span:
        return print_span(default)
    return ",".join(default) if isinstance(default, tuple) else str(default)
