"""`taskbell serve`: run a server."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from taskbell.core.errors import TaskbellError
from taskbell.settings import PREFIX, SettingError, Settings, print_span, resolve


def _options(command: Any) -> Any:
    """One option for each setting, in the order of the settings."""
    for item in reversed(fields(Settings)):
        option = "--" + item.name.replace("_", "-")
        text = f"{item.metadata['help']} [default: {_default(item)}; {PREFIX}{item.name.upper()}]"
        if item.default is False:
            command = click.option(option, item.name, is_flag=True, flag_value="true", default=None, help=text)(command)
        else:
            command = click.option(option, item.name, metavar=_metavar(item), default=None, help=text)(command)
    return command


def _default(item: Any) -> str:
    if item.default is None:
        return "none"
    if item.metadata["parse"].__name__ == "parse_span":
        return print_span(item.default)
    if isinstance(item.default, tuple):
        return ",".join(item.default)
    return f"{item.default:g}" if isinstance(item.default, float) else str(item.default) or "none"


def _metavar(item: Any) -> str:
    if item.metadata["parse"].__name__ == "parse_span":
        return "SPAN"
    return {int: "N", float: "N", tuple: "A,B"}.get(type(item.default), "TEXT")


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path), default=None, help="Settings file [default: taskbell.toml, if there]."
)
@_options
def serve(config: Path | None, **flags: str | None) -> None:
    """Run a server: Google's Cloud Tasks API over gRPC and REST on one port.

    Every option can also be an environment variable (named with each option) or a key of taskbell.toml; a flag wins
    over the environment, the environment over the file.
    """
    from taskbell.cli import serving
    from taskbell.engines import check_store

    try:
        settings = resolve(flags, config)
        server = serving.chosen_server(settings)
        serving.check_port(settings)
        check_store(settings.store)
    except (SettingError, TaskbellError) as refusal:
        click.echo(f"taskbell: {refusal}", err=True)
        sys.exit(1)
    if server != "pyvoy":
        click.echo("taskbell: serving with hypercorn, which is slower than pyvoy", err=True)
    serving.serve(settings, server)
