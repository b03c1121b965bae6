"""The maps with which a proxy finds the cell of a request: by merchant, webhook account or host.

The ids in URLs and the keys of new merchants contain the merchant's number, so the maps need only
the cells' ranges, and entries for moved merchants and for keys without a number.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from manilla.cells.report import CellReport
from manilla.kit.ids import ALPHABET, OWNER_CHARACTERS, OWNER_MAX, base32
from manilla.merchants.credentials import has_number

DECIMAL_DIGITS = len(str(OWNER_MAX))

Entries = dict[str, str]


class Proxy(StrEnum):
    HAPROXY = "haproxy"
    NGINX = "nginx"


class CellMaps(msgspec.Struct, frozen=True):
    """The entries of each map, from the part of a request to the name of the cell."""

    numbers: Entries  # starts of merchant numbers, with seven characters in base 32
    decimals: Entries  # starts of merchant numbers, with eleven decimal digits
    keys: Entries  # merchant keys that do not start with the merchant's number
    api_keys: Entries  # SHA-256 hashes of main API keys that do not start with the number
    accounts: Entries  # provider accounts, as in the URLs of their webhooks
    hosts: Entries  # host names, for requests that no other map decides

    def of_number(self, merchant_id: int) -> str | None:
        return _longest(self.numbers, base32(merchant_id, OWNER_CHARACTERS))

    def of_decimal(self, merchant_id: int) -> str | None:
        return _longest(self.decimals, f"{merchant_id:0{DECIMAL_DIGITS}}")

    def of_key(self, key: str) -> str | None:
        number = key.removeprefix("test_")[:OWNER_CHARACTERS].upper()
        return self.keys.get(key) or _longest(self.numbers, number)


def build(reports: Sequence[CellReport]) -> CellMaps:
    """Builds the maps from the reports of all cells."""
    numbers: Entries = {}
    decimals: Entries = {}
    for cell in reports:
        span = (cell.first_merchant, cell.last_merchant)
        numbers |= dict.fromkeys(prefixes(*span, ALPHABET, OWNER_CHARACTERS), cell.name)
        decimals |= dict.fromkeys(prefixes(*span, "0123456789", DECIMAL_DIGITS), cell.name)
    maps = CellMaps(numbers, decimals, {}, {}, {}, _unique_hosts(reports))
    for cell in reports:
        for merchant in cell.merchants:
            if not cell.numbers(merchant.id):
                numbers[base32(merchant.id, OWNER_CHARACTERS)] = cell.name
                decimals[f"{merchant.id:0{DECIMAL_DIGITS}}"] = cell.name
            unnumbered = [key for key in merchant.keys if not has_number(key, merchant.id)]
            maps.keys.update(dict.fromkeys(unnumbered, cell.name))
            maps.api_keys.update(dict.fromkeys(merchant.api_key_hashes, cell.name))
        for account in cell.accounts:
            # The first cell gets the webhooks of a shared account, and forwards them.
            maps.accounts.setdefault(account, cell.name)
    return maps


def prefixes(first: int, last: int, digits: str, width: int) -> Iterator[str]:
    """Returns the shortest prefixes that match exactly the numbers from first to last."""
    base = len(digits)
    while first <= last:
        length = 0
        while first % base ** (length + 1) == 0 and first + base ** (length + 1) - 1 <= last:
            length += 1
        yield _write(first // base**length, digits, width - length)
        first += base**length


def _write(number: int, digits: str, width: int) -> str:
    text = ""
    for _ in range(width):
        number, digit = divmod(number, len(digits))
        text = digits[digit] + text
    return text


def _longest(entries: Mapping[str, str], text: str) -> str | None:
    found = (entries.get(text[:length]) for length in range(len(text), 0, -1))
    return next((cell for cell in found if cell is not None), None)


def _unique_hosts(reports: Sequence[CellReport]) -> Entries:
    """Maps the host names of the cells' URLs. A name that two cells share identifies neither."""
    hosts = [(urlsplit(cell.base_url).hostname or "", cell.name) for cell in reports]
    names = [host for host, _ in hosts]
    return {host: cell for host, cell in hosts if names.count(host) == 1}


class MapFile(msgspec.Struct, frozen=True):
    """A map as a file: its name, its purpose, and whether its entries are prefixes."""

    field: str
    name: str
    purpose: str
    is_prefix: bool = False


FILES = (
    MapFile("numbers", "merchants.map", "Starts of merchant numbers in base 32.", True),
    MapFile("decimals", "decimals.map", "Starts of decimal merchant numbers.", True),
    MapFile("keys", "keys.map", "Merchant keys that do not contain the number."),
    MapFile("api_keys", "api-keys.map", "Hashes of API keys that do not contain the number."),
    MapFile("accounts", "webhooks.map", "Provider accounts in the URLs of webhooks."),
    MapFile("hosts", "hosts.map", "Host names of the cells."),
)

# nginx cannot compute hashes.
NOT_FOR_NGINX = ("api_keys",)
# nginx reads these words as parameters of its `map` block, unless a backslash precedes them.
NGINX_PARAMETERS = ("default", "hostnames", "include", "volatile")


def files_for(proxy: Proxy) -> list[MapFile]:
    left_out = NOT_FOR_NGINX if proxy is Proxy.NGINX else ()
    return [file for file in FILES if file.field not in left_out]


def render(maps: CellMaps, proxy: Proxy) -> dict[str, str]:
    """Returns the contents of the map files for the proxy, by file name."""
    write = _WRITERS[proxy]
    return {
        file.name: f"# {file.purpose}\n"
        + "".join(write(file, *entry) for entry in sorted(getattr(maps, file.field).items()))
        for file in files_for(proxy)
    }


def parse(files: Mapping[str, str], proxy: Proxy) -> CellMaps:
    """Parses the contents of map files. Raises ValueError if a line is not a map entry."""
    entries: dict[str, Entries] = {file.field: {} for file in FILES}
    for file in files_for(proxy):
        for line in files[file.name].splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                found = _LINES[proxy][file.is_prefix].fullmatch(line.strip())
                if found is None:
                    raise ValueError(f"{file.name}: {line.strip()!r} is not an entry of the map.")
                entries[file.field][found["key"]] = found["cell"]
    return CellMaps(**entries)


def _haproxy_line(_file: MapFile, key: str, cell: str) -> str:
    return f"{key} {cell}\n"


def _nginx_line(file: MapFile, key: str, cell: str) -> str:
    if file.is_prefix and len(key) < _WIDTHS[file.field]:
        return f"~*^{key} {cell};\n"
    return f"{chr(92) if key in NGINX_PARAMETERS else ''}{key} {cell};\n"


_WIDTHS = {"numbers": OWNER_CHARACTERS, "decimals": DECIMAL_DIGITS}
_WRITERS: dict[Proxy, Callable[[MapFile, str, str], str]] = {
    Proxy.HAPROXY: _haproxy_line,
    Proxy.NGINX: _nginx_line,
}
_CELL = r"(?P<cell>[a-z0-9-]+)"
_LINES = {
    Proxy.HAPROXY: {
        is_prefix: re.compile(rf"(?P<key>\S+)\s+{_CELL}") for is_prefix in (False, True)
    },
    Proxy.NGINX: {
        False: re.compile(rf"\\?(?P<key>[^\s~;]+)\s+{_CELL};"),
        True: re.compile(rf"(?:~\*\^)?(?P<key>[0-9A-Z]+)\s+{_CELL};"),
    },
}
