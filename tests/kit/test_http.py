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
    ],
)
def test_forwarded_ips_are_accepted_only_from_configured_proxies(
    peer: str, forwarded: bytes | None, expected: str
) -> None:
    assert http.client_address(peer, forwarded, PROXIES) == expected


def test_without_configured_proxies_forwarded_ips_are_ignored() -> None:
    assert http.client_address("127.0.0.1", b"1.2.3.4", []) == "127.0.0.1"
