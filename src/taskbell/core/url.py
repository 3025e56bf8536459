"""URLs of HTTP targets: which are refused at create, and what exactly of the others goes out (wire.md section 5.5).

The rule is: byte for byte where RFC 3986 allows the byte, percent-encoded once where it does not. So an escape that is
there stays as it is, dot segments stay, `é` becomes `%C3%A9`, a blank `%20`. A fragment is never sent.

`service/` calls `check_url` when a task is created, `senders/` calls `wire_url` when it is dispatched. The recorded
service takes a URL with a bad percent escape and fails its attempts; so do we.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import quote, unquote_to_bytes

from taskbell.core.errors import InvalidArgument
from taskbell.core.limits import GOOGLE

_REQUIRED = "HttpRequest.url is required."
_SCHEME = "HttpTarget.url must start with 'http://' or 'https://'."
_HOST = "HttpRequest.url has a host with characters that no host may have."

# RFC 3986: pchar without "%", and what a query may have besides.
_PCHAR = r"A-Za-z0-9._~!$&'()*+,;=:@\-"
_PATH_SAFE = "%/._~!$&'()*+,;=:@-"
_QUERY_SAFE = _PATH_SAFE + "?"
_URL_SAFE = _QUERY_SAFE + "#[]"

# Parts as RFC 3986 (appendix B) splits them; the authority ends at the first of "/?#".
_PARTS = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?", re.IGNORECASE)
_HOST_BAD = re.compile(r"[\s\x00-\x20\x7f\"<>\\^`{|}\[\]]|%(?![0-9A-Fa-f]{2})")
_ESCAPE_BAD = re.compile(r"%(?![0-9A-Fa-f]{2})")

_PORT_NUMBER = r"(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

# A URL that needs no work at all; one match is all that most tasks pay. Escapes stand outside the repeated classes,
# because an alternative for each character takes four times as long.
_PLAIN_PATH = rf"[{_PCHAR}/]*"
_PLAIN_QUERY = rf"[{_PCHAR}/?]*"
_PLAIN = re.compile(
    rf"https?://[a-z0-9.-]+(?::{_PORT_NUMBER})?"
    rf"(?:/{_PLAIN_PATH}(?:%[0-9A-Fa-f]{{2}}{_PLAIN_PATH})*)?"
    rf"(?:\?{_PLAIN_QUERY}(?:%[0-9A-Fa-f]{{2}}{_PLAIN_QUERY})*)?"
)

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class WireUrl:
    """One URL, taken apart and encoded for the wire."""

    scheme: str
    host: str
    """As given, an IPv6 address with its brackets; IDNA is the sender's."""
    port: int | None
    target: str
    """Path and query as they stand in the request line; begins with a slash."""
    credentials: bytes | None = None
    """`user:password`, decoded, when the URL carries them."""

    @property
    def authority(self) -> str:
        """What the Host header says: without credentials, without a default port."""
        has_port = self.port is not None and self.port != _PORTS[self.scheme]
        return f"{self.host}:{self.port}" if has_port else self.host

    @property
    def url(self) -> str:
        """The whole URL without credentials and fragment."""
        return f"{self.scheme}://{self.authority}{self.target}"


def is_wire_ready(url: str) -> bool:
    """Whether a URL needs no work at all: nothing to encode, no credentials, no fragment."""
    return _PLAIN.fullmatch(url) is not None


def check_url(url: str, length_max: int = GOOGLE.url_length) -> None:
    """Refuse, as InvalidArgument, a URL that could never be sent."""
    if len(url) <= length_max and is_wire_ready(url):
        return
    _parse(url)
    length = len(_encoded(url, _URL_SAFE))
    if length > length_max:
        raise InvalidArgument(f"HttpRequest.url is too long: {length} characters when encoded, {length_max} allowed.")


def check_relative_uri(uri: str, length_max: int = GOOGLE.url_length) -> None:
    """Refuse, as InvalidArgument, what cannot be the path and query of an App Engine request."""
    if not uri.startswith("/"):
        raise InvalidArgument("AppEngineHttpRequest.relativeUri must begin with '/'.")
    if any(character.isspace() for character in uri):
        raise InvalidArgument("AppEngineHttpRequest.relativeUri must not contain spaces.")
    if len(_encoded(uri, _URL_SAFE)) > length_max:
        raise InvalidArgument(f"AppEngineHttpRequest.relativeUri is too long: {length_max} characters are allowed.")


def wire_url(url: str) -> WireUrl:
    """What is sent for a URL. InvalidArgument: it cannot be sent, for what `check_url` refuses or a bad escape."""
    parsed = _parse(url)
    if _ESCAPE_BAD.search(parsed.target):
        raise InvalidArgument("HttpRequest.url has a bad percent escape.")
    return parsed


def _parse(url: str) -> WireUrl:
    if not url:
        raise InvalidArgument(_REQUIRED)
    found = _PARTS.match(url)
    if found is None:
        raise InvalidArgument(_SCHEME)
    userinfo, at, place = found["authority"].rpartition("@")
    if "\\" in userinfo:
        # Browsers end the host at a backslash: two readers, two hosts.
        raise InvalidArgument(_HOST)
    host, port = _host_and_port(place)
    path, query = found["path"], found["query"] or ""
    encoded_path, encoded_query = _encoded(path, _PATH_SAFE), _encoded(query, _QUERY_SAFE)
    return WireUrl(
        scheme=found["scheme"].lower(),
        host=host,
        port=port,
        target=(encoded_path or "/") + encoded_query,
        credentials=_credentials(userinfo) if at and userinfo else None,
    )


def _encoded(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="surrogatepass")


def _host_and_port(place: str) -> tuple[str, int | None]:
    if place.startswith("["):
        host, bracket, rest = place.partition("]")
        if not bracket or not _is_ipv6(host[1:]) or (rest and not rest.startswith(":")):
            raise InvalidArgument("HttpRequest.url has an invalid IPv6 address as its host.")
        return host + bracket, _port(rest[1:])
    host, _, port = place.partition(":")
    if not host:
        raise InvalidArgument("HttpRequest.url has no host.")
    if _HOST_BAD.search(host):
        raise InvalidArgument(_HOST)
    return host, _port(port)


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).scope_id is None
    except AddressValueError:
        return False


def _port(text: str) -> int | None:
    if not text:
        return None
    digits = text.lstrip("0") or "0"
    if not (text.isascii() and text.isdigit()) or len(digits) > 5 or int(digits) > 65535:
        raise InvalidArgument("HttpRequest.url has an invalid port: it must be a number from 0 to 65535.")
    return int(digits)


def _credentials(userinfo: str) -> bytes:
    user, _, password = userinfo.partition(":")
    return unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
