"""Uploads bulk payout files as a browser does."""

from collections.abc import Sequence

from manilla.bulk import file
from tests.dashboard.merchant_dashboard import MerchantDashboard, redirect_target
from tests.support.client import Reply

BULK = "/sandbox/payouts/bulk"
GTBANK = "058"
HEADER = ",".join(file.COLUMNS)


async def upload(
    dashboard: MerchantDashboard, content: bytes, method: int | None = None, at: str = BULK
) -> Reply:
    method = await dashboard.method_id() if method is None else method
    return await dashboard.owner.upload(at, {"method": str(method)}, "july.csv", content)


async def draft(dashboard: MerchantDashboard, rows: Sequence[str]) -> str:
    """Uploads a payout file with these rows, and returns the batch's URL."""
    reply = await upload(dashboard, "\n".join([HEADER, *rows]).encode())
    return redirect_target(reply)
