"""functions-framework: a decorator under `@functions_framework.http`.

    @functions_framework.http
    @idempotent(guard)
    def report(request): ...

An HTTP function is a Flask view that is given the request, and all of `flask.py` holds for it.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("functions_framework") is None:
    raise ImportError(
        "taskbell.idempotency.adapters.functions_framework needs functions-framework: pip install 'taskbell[functions]'"
    )

from taskbell.idempotency.adapters.flask import idempotent

__all__ = ["idempotent"]
