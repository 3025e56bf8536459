"""`python -m taskbell` and the command `taskbell`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without the server's packages, say how to get them."""
    try:
        from taskbell.cli.main import taskbell
    except ModuleNotFoundError as missing:
        sys.exit(f"taskbell: {missing.name} is not installed; the command needs: pip install 'taskbell[server]'")
    taskbell(prog_name="taskbell")


if __name__ == "__main__":
    main()
