"""Limits how often a merchant's users can upload files, which are slow to parse or encrypt."""

from manilla.kit.ratelimit import RateLimitExceeded
from manilla.web.page_request import PageRequest

UPLOADS_A_MINUTE = 20
TOO_MANY_UPLOADS = "Too many uploads. Wait a minute and try again."


async def count(request: PageRequest) -> None:
    """Counts an upload. Raises `RateLimitExceeded` if there were too many in this minute."""
    bucket = f"{request.merchant_id:011d}:uploads"
    if (await request.services.limiter.take(bucket, UPLOADS_A_MINUTE)).exceeded:
        raise RateLimitExceeded(TOO_MANY_UPLOADS)
