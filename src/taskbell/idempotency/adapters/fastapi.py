"""FastAPI: a class for the routes of a router.

    router = APIRouter(route_class=idempotent(guard))

    @router.post("/report")
    async def report(order: Order) -> Receipt: ...

The route as a whole is guarded, not the function: validation, `response_model`, the route's status and the handlers of
errors all belong to the answer that is kept, and an answer that cannot be made does not complete its key. The endpoint
reaches its run by `taskbell.idempotency.current_run()`. An application as a whole is guarded by `asgi.py`.
"""

from __future__ import annotations

from typing import Any, Unpack

from taskbell.idempotency.adapters.asgi import IdempotentAsgi, Receive, Scope, Send
from taskbell.idempotency.adapters.exchange import Exchange, Options
from taskbell.idempotency.guard import AsyncGuard

try:
    from fastapi.routing import APIRoute
except ImportError as error:
    raise ImportError("taskbell.idempotency.adapters.fastapi needs FastAPI: pip install 'taskbell[fastapi]'") from error


def idempotent(guard: AsyncGuard, **options: Unpack[Options]) -> type[APIRoute]:
    """The class of guarded routes; `options` are explained at `Exchange`."""
    Exchange(**options)  # Refuses wrong ones here, and not at the first route.

    class IdempotentRoute(APIRoute):
        """A route that guards what it routes to."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # Not `self.app`: routes of included routers are given another for each inclusion.
            self._guarded = IdempotentAsgi(super().handle, guard, **options)

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            await self._guarded(scope, receive, send)

    return IdempotentRoute
