"""The command `taskbell` and its groups."""

from __future__ import annotations

import click

from taskbell import __version__
from taskbell.cli.demo import demo
from taskbell.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="taskbell")
def taskbell() -> None:
    """Cloud Tasks and Cloud Scheduler that you run yourself."""


taskbell.add_command(demo)
taskbell.add_command(serve)
