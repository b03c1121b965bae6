"""Checks that maps route every request to the cell that has the merchant, and to no other cell."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from manilla.cells.maps import CellMaps, Proxy
from manilla.cells.report import CellReport
from manilla.merchants.queries import RoutedMerchant


def find_problems(reports: Sequence[CellReport], maps: CellMaps, proxy: Proxy) -> Iterator[str]:
    """Returns a line for each request that the maps would route wrongly, or not at all."""
    yield from find_disputes(reports)
    yield from _find_lost_merchants(reports)
    yield from _find_stale_moves(reports)
    yield from _find_unknown_cells(reports, maps)
    for cell in reports:
        for merchant in cell.merchants:
            yield from _check_merchant(cell.name, merchant, maps, proxy)
        yield from _check_accounts(cell, reports, maps)
    for cell in reports:
        if cell.name not in maps.hosts.values():
            yield f"{cell.name}: no host name in hosts.map leads to the pages of this cell."


def find_shared_accounts(reports: Sequence[CellReport], maps: CellMaps) -> Iterator[str]:
    """Returns a line for each provider account that several cells use.

    A shared account is not an error, because the cell that gets a webhook forwards it.
    """
    for account, cells in _by_account(reports).items():
        if len(cells) > 1:
            first = maps.accounts.get(account)
            if first in cells:  # otherwise, `find_problems` reports it
                yield (
                    f"The cells {' and '.join(cells)} use the provider account {account}. Its"
                    f" webhooks go to {first}, which forwards them."
                )


def _check_merchant(
    cell: str, merchant: RoutedMerchant, maps: CellMaps, proxy: Proxy
) -> Iterator[str]:
    routes = [
        ("transaction ids and payment links", maps.of_number(merchant.id)),
        ("logos", maps.of_decimal(merchant.id)),
        *((f"the merchant key {key[:12]}…", maps.of_key(key)) for key in merchant.keys),
    ]
    if proxy is Proxy.HAPROXY:
        routes += [("an API key", maps.api_keys.get(each)) for each in merchant.api_key_hashes]
    elif merchant.api_key_hashes:
        yield (
            f"Merchant {merchant.id} has an API key without its number. The proxy cannot route the"
            " legacy API by this key: rotate the key."
        )
    for what, found in routes:
        if found != cell:
            yield (
                f"Merchant {merchant.id} is in {cell}, but the maps send {what}"
                f" to {found or 'no cell'}."
            )


def _check_accounts(
    cell: CellReport, reports: Sequence[CellReport], maps: CellMaps
) -> Iterator[str]:
    users = _by_account(reports)
    for account in cell.accounts:
        found = maps.accounts.get(account)
        if found not in users[account]:
            yield (
                f"{cell.name} uses the provider account {account}, but its webhooks lead to"
                f" {found or 'no cell'}."
            )


def find_disputes(reports: Sequence[CellReport]) -> Iterator[str]:
    """Returns a line for each merchant or key whose cell is not certain.

    A cell could otherwise take over the requests of another cell's merchants, by reporting them.
    """
    claims = defaultdict(list)
    for cell in reports:
        for merchant in cell.merchants:
            claims[merchant.id].append(cell.name)
    for merchant_id, cells in claims.items():
        if len(cells) > 1:
            yield (
                f"Merchant {merchant_id} is in several cells: {', '.join(cells)}. If one of them"
                " was recovered to a moment before a move, run `manilla cell depart` there."
            )
        elif problem := _find_unproven_move(merchant_id, cells[0], reports):
            yield problem
    yield from _find_shared_keys(reports)


def _find_unproven_move(
    merchant_id: int, claimed_by: str, reports: Sequence[CellReport]
) -> str | None:
    """Returns a problem unless the cell with this number has moved the merchant to this cell."""
    origin = next((cell for cell in reports if cell.numbers(merchant_id)), None)
    if origin is None:
        return f"{claimed_by} reports the merchant {merchant_id}, which is in no cell's range."
    moves = {cell.name: cell.moves for cell in reports}
    home, visited = origin.name, set[str]()
    while home != claimed_by and home not in visited:
        visited.add(home)
        home = moves.get(home, {}).get(merchant_id, home)
    if home == claimed_by:
        return None
    return (
        f"{claimed_by} reports the merchant {merchant_id}. This number is in the range of"
        f" {origin.name}, which has not moved the merchant there. If the merchant was moved, run"
        f" `manilla cell locate {merchant_id} {claimed_by}` in {origin.name}."
    )


def _find_shared_keys(reports: Sequence[CellReport]) -> Iterator[str]:
    owners: dict[str, dict[int, str]] = defaultdict(dict)
    for cell in reports:
        for merchant in cell.merchants:
            for key in (*merchant.keys, *merchant.api_key_hashes):
                owners[key][merchant.id] = cell.name
    for key, cells in owners.items():
        if len(cells) > 1:
            named = " and ".join(f"{number} in {cell}" for number, cell in sorted(cells.items()))
            yield f"The merchants {named} have the same key {key[:12]}…."


def _find_lost_merchants(reports: Sequence[CellReport]) -> Iterator[str]:
    found = {merchant.id for cell in reports for merchant in cell.merchants}
    for cell in reports:
        for merchant_id in sorted(cell.moves.keys() - found):
            home = cell.moves[merchant_id]
            yield f"Merchant {merchant_id} was moved from {cell.name} to {home}, and is in no cell."


def _find_stale_moves(reports: Sequence[CellReport]) -> Iterator[str]:
    homes = {merchant.id: cell.name for cell in reports for merchant in cell.merchants}
    for cell in reports:
        for merchant_id, believed in cell.moves.items():
            home = homes.get(merchant_id, believed)
            if home != believed:
                yield (
                    f"{cell.name} believes that merchant {merchant_id} is in {believed}, but it is"
                    f" in {home}. Run `manilla cell locate {merchant_id} {home}` in {cell.name}."
                )


def _find_unknown_cells(reports: Sequence[CellReport], maps: CellMaps) -> Iterator[str]:
    known = {cell.name for cell in reports}
    named = {cell for name in maps.__struct_fields__ for cell in getattr(maps, name).values()}
    for name in sorted(named - known):
        yield f"A map names the cell {name}, which is not a known cell."


def _by_account(reports: Sequence[CellReport]) -> dict[str, list[str]]:
    users: dict[str, list[str]] = defaultdict(list)
    for cell in reports:
        for account in cell.accounts:
            users[account].append(cell.name)
    return users
