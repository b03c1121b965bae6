"""The page of API keys and secrets: the list, and rotation."""

import base64

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.merchants import merchants, queries
from manilla.people.roles import Permission
from manilla.web.page_request import PageRequest, PageResponse

OVERLAPS = (
    (0, "Expire immediately"),
    (60, "Keep valid for 1 hour"),
    (24 * 60, "Keep valid for 1 day"),
    (7 * 24 * 60, "Keep valid for 1 week"),
)


async def show(request: PageRequest) -> PageResponse:
    rows = await queries.credentials(request.db, request.merchant_id, request.environment)
    return request.page(
        "credentials.html",
        merchant_key=rows[0].merchant_key,
        credentials=rows,
        overlaps=OVERLAPS,
        base_url=request.services.base_url,
        may_rotate=_may_rotate(request),
    )


async def rotate(request: PageRequest) -> PageResponse:
    try:
        new = await merchants.rotate(
            request.db,
            request.services.keyring,
            request.merchant_id,
            request.environment,
            overlap_minutes=request.form.integer("overlap_minutes"),
        )
    except Refusal as refusal:
        return request.redirect_with_errors("~/credentials", refusal)
    # Render a page instead of redirecting, because the keys are shown only once.
    return request.page(
        "new_credentials.html", keys=new, webhook_key=_webhook_secret(new.api_secret)
    )


def _may_rotate(request: PageRequest) -> bool:
    return request.environment is Environment.SANDBOX or request.may(Permission.MOVE_MONEY)


def _webhook_secret(secret: str) -> str:
    """Returns the API secret in the format that Standard Webhooks libraries expect."""
    return "whsec_" + base64.b64encode(secret.encode()).decode()
