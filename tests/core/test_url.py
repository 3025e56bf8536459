"""Which URLs are refused at create, and what of the others goes out."""

from __future__ import annotations

import pytest

from taskbell.core.errors import InvalidArgument
from taskbell.core.url import check_relative_uri, check_url, is_wire_ready, wire_url

NO_SCHEME = "HttpTarget.url must start with 'http://' or 'https://'."
NO_HOST = "HttpRequest.url has no host."
BAD_HOST = "HttpRequest.url has a host with characters that no host may have."
BAD_IPV6 = "HttpRequest.url has an invalid IPv6 address as its host."
BAD_PORT = "HttpRequest.url has an invalid port: it must be a number from 0 to 65535."


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "HttpRequest.url is required."),
        ("example.com/x", NO_SCHEME),
        ("ftp://example.com/", NO_SCHEME),
        ("//example.com/", NO_SCHEME),
        ("http:/example.com/", NO_SCHEME),
        ("http:example.com", NO_SCHEME),
        (" http://example.com/", NO_SCHEME),
        ("httpx://example.com/", NO_SCHEME),
        ("http://", NO_HOST),
        ("http:///path", NO_HOST),
        ("http://:80/", NO_HOST),
        ("http://user:pw@/", NO_HOST),
        ("http://?x", NO_HOST),
        ("http://a b/", BAD_HOST),
        ("http://a\tb/", BAD_HOST),
        ("http://a\u3000b/", BAD_HOST),
        ("http://a\x00/", BAD_HOST),
        ("http://a\x7f/", BAD_HOST),
        ("http://a\\@b/", BAD_HOST),
        ("http://a\\b/", BAD_HOST),
        ("http://<script>/", BAD_HOST),
        ("http://a|b/", BAD_HOST),
        ("http://a]/", BAD_HOST),
        ("http://%zz/", BAD_HOST),
        ("http://[::1/", BAD_IPV6),
        ("http://[::1]x/", BAD_IPV6),
        ("http://[::g]/", BAD_IPV6),
        ("http://[fe80::1%25eth0]/", BAD_IPV6),
        ("http://[]/", BAD_IPV6),
        ("http://h:65536/", BAD_PORT),
        ("http://h:-1/", BAD_PORT),
        ("http://h:8o/", BAD_PORT),
        ("http://h:1:2/", BAD_PORT),
        ("http://h:\u0661/", BAD_PORT),
        ("http://h:" + "9" * 5000 + "/", BAD_PORT),
        ("http://[::1]:65536/", BAD_PORT),
        ("http://h/%zz", None),
        ("http://h/%", None),
        ("http://h?%4", None),
        ("http://h:0/", None),
        ("http://h:/", None),
        ("http://h:00000000080/", None),
        ("HTTPS://H.EXAMPLE/", None),
        ("http://bücher.example/", None),
        ("http://under_score/", None),
        ("http://[2001:db8::1]:8080/x", None),
        ("http://u%40d:p%3Aw@127.0.0.1:8081/x", None),
        ('http://h/a b\n<>"{}|\\^`', None),
    ],
)
def test_create_refuses_what_could_never_be_sent(url: str, text: str | None) -> None:
    """A bad escape is not refused: it is recorded that the service takes it and fails the attempts."""
    if text is None:
        check_url(url)
        return
    with pytest.raises(InvalidArgument) as refused:
        check_url(url)
    assert refused.value.message == text


def test_the_length_counts_after_encoding() -> None:
    """One character may be nine when encoded."""
    start = "http://h/"
    check_url(start + "a" * (2083 - len(start)))
    check_url(start + "é" * ((2083 - len(start)) // 6))
    for url in (start + "a" * (2084 - len(start)), start + "é" * ((2083 - len(start)) // 6 + 1)):
        with pytest.raises(
            InvalidArgument, match=r"^HttpRequest\.url is too long: \d+ characters when encoded, 2083 allowed\.$"
        ):
            check_url(url)
    check_url(start + "a" * 3000, length_max=4000)


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("http://h/a", "h", "/a"),
        ("http://h", "h", "/"),
        ("http://h?x=1", "h", "/?x=1"),
        ("http://h/?", "h", "/?"),
        ("http://h#f", "h", "/"),
        ("http://h/a?b#c?d", "h", "/a?b"),
        ("http://h:80/a", "h", "/a"),
        ("http://h:443/a", "h:443", "/a"),
        ("https://h:443/a", "h", "/a"),
        ("http://h:/a", "h", "/a"),
        ("http://h:0080/a", "h", "/a"),
        ("http://u:p@h:8080/a", "h:8080", "/a"),
        ("http://[::1]:8080/a", "[::1]:8080", "/a"),
        ("http://h/a%20b%2Fc%2f", "h", "/a%20b%2Fc%2f"),
        ("http://h/a b", "h", "/a%20b"),
        ("http://h/é?ü=ß", "h", "/%C3%A9?%C3%BC=%C3%9F"),
        ("http://h/\U0001f600", "h", "/%F0%9F%98%80"),
        ('http://h/"<>\\^`{|}[]', "h", "/%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
        ('http://h/?"<>\\^`{|}[]', "h", "/?%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
        ("http://h/\t\n\r\x01", "h", "/%09%0A%0D%01"),
        ("http://h/-._~!$&'()*+,;=:@", "h", "/-._~!$&'()*+,;=:@"),
        ("http://h/?-._~!$&()*+,;=:@/?", "h", "/?-._~!$&()*+,;=:@/?"),
        ("http://h//a///b/", "h", "//a///b/"),
        ("http://h/a.b/..c/.../.d/e.", "h", "/a.b/..c/.../.d/e."),
        ("http://h/?a=/../b", "h", "/?a=/../b"),
        ("http://h/a/../b", "h", "/a/../b"),
        ("http://h/./b", "h", "/./b"),
        ("http://h/a/..", "h", "/a/.."),
        ("http://h/a/%2e%2E/b", "h", "/a/%2e%2E/b"),
        ("http://h/a/.%2e?x", "h", "/a/.%2e?x"),
        ("http://h/?q='x'", "h", "/?q='x'"),
    ],
)
def test_the_target_goes_out_byte_for_byte_where_legal(url: str, authority: str, target: str) -> None:
    """And percent-encoded once where it is not."""
    wire = wire_url(url)
    assert (wire.authority, wire.target) == (authority, target)
    assert wire.url == f"{wire.scheme}://{authority}{target}"
    again = wire_url(wire.url)
    assert (again.authority, again.target) == (authority, target)


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("http://h/", None),
        ("http://@h/", None),
        ("http://u@h/", b"u:"),
        ("http://u:p@h/", b"u:p"),
        ("http://:p@h/", b":p"),
        ("http://u%40d:p%3Aw@h/", b"u@d:p:w"),
        ("http://u:p@q@h/", b"u:p@q"),
        ("http://u:a:b@h/", b"u:a:b"),
        ("http://ü:é@h/", "ü:é".encode()),
    ],
)
def test_credentials_leave_the_url(url: str, credentials: bytes | None) -> None:
    """They are decoded, and are no part of what is printed or sent as a URL."""
    wire = wire_url(url)
    assert wire.credentials == credentials
    assert wire.url == "http://h/"


@pytest.mark.parametrize("url", ["http://h/%zz", "http://h/a%", "http://h/?x=%4", "http://h/%é", "http://h/%%41"])
def test_a_bad_escape_cannot_be_sent(url: str) -> None:
    """The handler could not read it."""
    with pytest.raises(InvalidArgument) as refused:
        wire_url(url)
    assert refused.value.message == "HttpRequest.url has a bad percent escape."


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", True),
        ("http://h:8080/a/b?c=d", True),
        ("https://a-b.example/x%20y?z=%C3%A9", True),
        ("http://h/.well-known/x", True),
        ("http://h/?a=%20%zz", False),
        ("http://h/a%2", False),
        ("http://h:65536/", False),
        ("http://h:65535/?a=/b?c", True),
        ("http://h/a/../b", True),
        ("http://h/%2e%2e/b", True),
        ("http://h/?'", True),
        ("http://h/%zz", False),
        ("http://h/a b", False),
        ("http://h/é", False),
        ("http://H/", False),
        ("http://u@h/", False),
        ("http://h/#f", False),
        ("http://h/|", False),
        ("http://[::1]/", False),
        ("", False),
    ],
)
def test_most_urls_need_no_work(url: str, expected: bool) -> None:  # noqa: FBT001 - a table column.
    """Those that do are looked at more closely."""
    assert is_wire_ready(url) is expected


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("/", None),
        ("/tasks/x?y=z", None),
        ("/%zz", None),
        ("", "AppEngineHttpRequest.relativeUri must begin with '/'."),
        ("tasks/x", "AppEngineHttpRequest.relativeUri must begin with '/'."),
        ("http://h/x", "AppEngineHttpRequest.relativeUri must begin with '/'."),
        ("/a b", "AppEngineHttpRequest.relativeUri must not contain spaces."),
        ("/" + "a" * 2083, "AppEngineHttpRequest.relativeUri is too long: 2083 characters are allowed."),
    ],
)
def test_relative_uris(uri: str, text: str | None) -> None:
    """A path and a query, and nothing before them."""
    if text is None:
        check_relative_uri(uri)
        return
    with pytest.raises(InvalidArgument) as refused:
        check_relative_uri(uri)
    assert refused.value.message == text
