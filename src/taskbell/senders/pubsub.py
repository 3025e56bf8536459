"""Messages to Pub/Sub topics, over the REST API of the real service or of Google's emulator.

An attempt publishes one message with the target's data and attributes. It has succeeded when the service has accepted
it (wire.md section 9.2); a refusal is the status that came: 404 without the topic, 403 without the right to publish.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote

from taskbell.core.instant import MINUTE, Span
from taskbell.core.target import Headers
from taskbell.sender import Failure, Outcome, Request, Sender, TokenUnavailableError

DEADLINE: Final[Span] = MINUTE
"""How long a publish may take, as in Google's clients; a job's attempt_deadline is for other targets."""


class PubsubSender:
    """Publishes messages; see `taskbell.sender.Sender`."""

    def __init__(
        self,
        http: Sender,
        endpoint: str,
        bearer: Callable[[], Awaitable[str]] | None,
        deadline: Span = DEADLINE,
    ) -> None:
        """`http` sends the calls; who made it starts and closes it.

        `endpoint` is where the API is, `https://pubsub.googleapis.com` say. `bearer` gives the access token of each
        call or raises TokenUnavailableError; None, as for the emulator: calls carry none.
        """
        self._http = http
        self._endpoint = endpoint.rstrip("/")
        self._bearer = bearer
        self._deadline = deadline

    async def start(self) -> None:
        """Nothing to open: the connections are those of the HTTP sender."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request) -> Outcome:
        """Publish one message."""
        headers: Headers = (("Content-Type", "application/json"),)
        if self._bearer is not None:
            try:
                headers = (*headers, ("Authorization", f"Bearer {await self._bearer()}"))
            except TokenUnavailableError as unavailable:
                return Outcome(failure=Failure.UNSENDABLE, reason=str(unavailable))
        url = f"{self._endpoint}/v1/{quote(request.url, safe='/:~')}:publish"
        body = message_json(request.body or b"", request.headers)
        return await self._http.send(Request("POST", url, headers, body, self._deadline))


def message_json(data: bytes, attributes: Headers) -> bytes:
    """The body of a publish call with one message; what is empty is left out."""
    message: dict[str, object] = {}
    if data:
        message["data"] = base64.b64encode(data).decode()
    if attributes:
        message["attributes"] = dict(attributes)
    return json.dumps({"messages": [message]}).encode()
