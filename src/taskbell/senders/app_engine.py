"""Requests to App Engine services, which an operator has mapped to addresses: HTTP to the one that the routing means.

Nothing follows a redirect here, and a 503 is a status like any other: what it means is for `core/` to say.
"""

from __future__ import annotations

from dataclasses import replace

from taskbell.core.app_engine import Application
from taskbell.core.target import Routing
from taskbell.sender import Failure, Outcome, Request, Sender


class AppEngineSender:
    """Sends App Engine requests; see `taskbell.sender.Sender`."""

    def __init__(self, http: Sender, application: Application) -> None:
        """`http` sends what has been resolved; who made it starts and closes it."""
        self._http = http
        self._application = application

    async def start(self) -> None:
        """Nothing to open: the connections are those of the HTTP sender."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request) -> Outcome:
        """One exchange with the service that the request's routing means."""
        routing = request.routing
        assert routing is not None, "an App Engine request carries its routing"
        service = self._application.resolve(routing)
        if service is None:
            return Outcome(failure=Failure.UNSENDABLE, reason=_unmapped(routing))
        deadline = service.default_deadline if request.deadline is None else request.deadline
        url = service.base_url + request.url
        return await self._http.send(replace(request, url=url, deadline=deadline, routing=None))


def _unmapped(routing: Routing) -> str:
    name = routing.service or "default"
    return (
        f"no address is known for the App Engine service {name[:100]!r}: set app_engine, "
        f"for example to default=http://127.0.0.1:8080"
    )
