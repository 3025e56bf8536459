"""What the server process loads inside Envoy: the application, or one line that says why it cannot be had.

Envoy by itself would answer a failed import with a dump of its configuration and without the reason.
"""

from __future__ import annotations

import os
import sys

try:
    from taskbell.app import asgi
except Exception as error:  # noqa: BLE001 - whatever it is, this line is all that anybody will see of it
    print(f"taskbell: the server cannot be loaded: {error!r}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)

__all__ = ["asgi"]
