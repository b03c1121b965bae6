"""Parses the IP addresses and networks that an API key may be used from."""

import ipaddress
from collections.abc import Sequence

from manilla.kit.errors import Refusal
from manilla.kit.http import Network

NETWORKS_MAX = 50
MAPPED_BITS = 96  # length of the IPv6 prefix before a mapped IPv4 address


class BadNetwork(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "An address is not valid."


def read(texts: Sequence[str]) -> list[str]:
    """Returns the networks in canonical form. A single address becomes a network."""
    found = list(dict.fromkeys(str(_read_one(text.strip())) for text in texts))
    if len(found) > NETWORKS_MAX:
        raise BadNetwork.at("networks", f"Enter at most {NETWORKS_MAX} addresses and networks.")
    return found


def _read_one(text: str) -> Network:
    try:
        network, address = ipaddress.ip_network(text, strict=False), ipaddress.ip_interface(text).ip
    except ValueError:
        problem = f"{text[:50]} is not an IP address or a network such as 203.0.113.0/24."
        raise BadNetwork.at("networks", problem) from None
    if address != network.network_address:
        raise BadNetwork.at("networks", f"{text} is not a network. Did you mean {network}?")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None and network.prefixlen >= MAPPED_BITS:
        # A request's IPv4 address is compared as IPv4, even if the socket reports it as IPv6.
        return ipaddress.ip_network((mapped, network.prefixlen - MAPPED_BITS))
    return network
