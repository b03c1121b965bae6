"""The rate limit bucket of a merchant's request, by merchant and source of the request.

Both environments share one bucket, because the specified limit does not distinguish them.
"""

from manilla.kit.ratelimit import RateTicket


def ticket(merchant_id: int, source: str, limit: int) -> RateTicket:
    """Returns the rate limit ticket of a request.

    `source` is the caller's IP address or network, or the part of Manilla that sends the request.
    """
    # Pad the merchant id with zeros, so that buckets sort like merchant ids. Every statement then
    # locks the rows of both in the same order, which prevents deadlocks.
    return RateTicket(f"{merchant_id:011d}:{source}", limit)
