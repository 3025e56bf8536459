"""The minter: which source a token of a task comes from.

`loops/attempt.py` asks for a bearer just before an attempt. ID tokens come from our own issuer, or from Google where
the operator says so; access tokens can only come from Google, because only Google's services take them.
"""

from __future__ import annotations

from taskbell.core.target import OidcToken, Token
from taskbell.senders.google import GoogleTokens
from taskbell.senders.issuer import Issuer


class Tokens:
    """Mints bearers; see `taskbell.sender.Minter`."""

    def __init__(self, issuer: Issuer, google: GoogleTokens, *, is_google_signed: bool = False) -> None:
        """`is_google_signed`: whether Google signs ID tokens too (`token_source = google`)."""
        self._issuer = issuer
        self._google = google
        self._is_google_signed = is_google_signed

    async def bearer(self, token: Token, url: str) -> str:
        """The token's text. Raises TokenUnavailableError."""
        if not isinstance(token, OidcToken):
            return await self._google.access_token(token.service_account_email, token.scope)
        audience = token.audience or url
        if self._is_google_signed:
            return await self._google.id_token(token.service_account_email, audience)
        return self._issuer.id_token(token.service_account_email, audience)
