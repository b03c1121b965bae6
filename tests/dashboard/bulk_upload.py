"""Uploads bulk payout files as a browser does."""

from collections.abc import Sequence

from manilla.payouts.bulk import file
from tests.client import Reply
from tests.dashboard.merchant_dashboard import MerchantDashboard, redirect_target

BULK = "/sandbox/payouts/bulk"
GTBANK = "058"
HEADER = ",".join(file.COLUMNS)


async def upload(
    dashboard: MerchantDashboard, content: bytes, method: int | None = None, at: str = BULK
) -> Reply:
    method = await dashboard.method_id() if method is None else method
    border = "a-border-between-parts"
    parts = [
        f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in (("csrf", await dashboard.owner.csrf()), ("method", method))
    ]
    head = 'Content-Disposition: form-data; name="file"; filename="july.csv"'
    file = f"--{border}\r\n{head}\r\nContent-Type: text/csv\r\n\r\n".encode() + content
    body = b"".join([*parts, file, f"\r\n--{border}--\r\n".encode()])
    headers = {
        **dashboard.owner.headers(),
        "Content-Type": f"multipart/form-data; boundary={border}",
    }
    return await dashboard.owner.site.send("POST", f"/dashboard{at}", headers, body)


async def draft(dashboard: MerchantDashboard, rows: Sequence[str]) -> str:
    """Uploads a payout file with these rows and returns the URL of the batch."""
    reply = await upload(dashboard, "\n".join([HEADER, *rows]).encode())
    return redirect_target(reply)
