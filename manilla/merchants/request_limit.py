"""What a merchant's requests are counted under: the merchant and where the request came from.

Both environments share one count, as the specification's limit has no environment in it.
"""

from manilla.kit.ratelimit import Ticket


def ticket(merchant_id: int, source: str, limit: int) -> Ticket:
    """`source` is the caller's address bucket, or the part of Manilla that makes the request."""
    # Padded, so that buckets sort as merchants do: every statement locks both in the same order.
    return Ticket(f"{merchant_id:011d}:{source}", limit)
