from ipaddress import ip_network

import pytest

from manilla.kit import http

PROXIES = [ip_network("10.0.0.0/8"), ip_network("::1/128")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        (
            "203.0.113.9",
            b"1.2.3.4",
            "203.0.113.9",
        ),  # The peer is not one of our proxies, so the X-Forwarded-For header is ignored.
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", b"1.2.3.4", "1.2.3.4"),
        # Only the last address in the header was added by our proxy.
        ("10.0.0.1", b"6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", b"1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", b"10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", b"1.2.3.4, nonsense", "10.0.0.1"),
        ("10.0.0.1", b"", "10.0.0.1"),
        ("::1", b"2001:db8::5", "2001:db8::5"),
        ("", b"1.2.3.4", ""),
        # HAProxy adds a line after the lines of the client.
        ("10.0.0.1", b"6.6.6.6\n1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", b"6.6.6.6, 10.0.0.2\n6.6.6.7\n1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", b"1.2.3.4\n10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", b"6.6.6.6\n", "10.0.0.1"),
        ("10.0.0.1", b"6.6.6.6\n1.2.3.4:80", "10.0.0.1"),
        ("10.0.0.1", b"6.6.6.6\n[2001:db8::5]", "10.0.0.1"),
        ("10.0.0.1", b"::ffff:10.0.0.2\n2001:db8::5", "2001:db8::5"),
    ],
)
def test_forwarded_ips_are_accepted_only_from_configured_proxies(
    peer: str, forwarded: bytes | None, expected: str
) -> None:
    lines = [] if forwarded is None else forwarded.split(b"\n")
    headers = [
        (b"host", b"6.6.6.6"),
        *((b"x-forwarded-for", line) for line in lines),
        (b"forwarded", b"for=6.6.6.6"),
        (b"x-real-ip", b"6.6.6.6"),
    ]
    assert http.client_address(peer, headers, PROXIES) == expected


def test_without_configured_proxies_forwarded_ips_are_ignored() -> None:
    forwarded = [(b"x-forwarded-for", b"1.2.3.4")]
    assert http.client_address("127.0.0.1", forwarded, []) == "127.0.0.1"
