"""A merchant's limits: the amounts of production transactions, and the API request rate."""

from datetime import UTC, datetime
from typing import Any

from manilla.kit.clock import LAGOS, start_of_day
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import trx_ids
from manilla.merchants.directory import Caller
from manilla.platform.settings import LimitKind, PlatformSettings


def of(settings: PlatformSettings, caller: Caller, kind: LimitKind, currency: str) -> Money | None:
    """Returns the merchant's limit, or None if there is no limit, as in the sandbox."""
    if caller.is_sandbox:
        return None
    return settings.merchant_limit(kind, caller.level, currency)


def of_day(
    settings: PlatformSettings, caller: Caller, kind: LimitKind, currency: str
) -> dict[str, Any]:
    """Returns the values with which the database checks the merchant's daily limit."""
    limit = of(settings, caller, kind, currency)
    if limit is None:
        return {}
    today = start_of_day(datetime.now(UTC).astimezone(LAGOS).date())
    return {"day_limit_minor": limit.minor, "day_from": trx_ids.floor(today)}


def rate_ticket(merchant_id: int, source: str, limit: int) -> RateTicket:
    """Returns the rate limit ticket of a request.

    Both environments share one bucket, because the specified limit does not distinguish them.
    `source` is the caller's IP address or network, or the part of Manilla that sends the request.
    """
    # Zero padding sorts buckets like merchant ids, so that all code locks rows in the same order.
    return RateTicket(f"{merchant_id:011d}:{source}", limit)
