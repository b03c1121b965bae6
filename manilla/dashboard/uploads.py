"""Limits how often users can upload files, because parsing or encrypting a file is slow."""

from manilla.kit.ratelimit import RateLimitExceeded
from manilla.web.page_request import PageRequest

UPLOADS_A_MINUTE = 20
TOO_MANY_UPLOADS = "Too many uploads. Wait a minute and try again."


async def count(request: PageRequest) -> None:
    """Counts an upload. Raises `RateLimitExceeded` after too many uploads in this minute."""
    bucket = f"{request.merchant_id:011d}:uploads"
    if (await request.services.limiter.take(bucket, UPLOADS_A_MINUTE)).exceeded:
        raise RateLimitExceeded(TOO_MANY_UPLOADS)
