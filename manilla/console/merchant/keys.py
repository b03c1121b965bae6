"""Revokes a merchant's additional API keys. The merchant's page lists them."""

from manilla.console import list_pages
from manilla.console.merchants import merchant_number
from manilla.kit.errors import Refusal
from manilla.merchants import api_keys
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse


async def revoke(request: PageRequest) -> PageResponse:
    merchant_id, number = merchant_number(request), list_pages.path_number(request, "key")
    back = f"/merchants/{merchant_id}"
    try:
        name = await api_keys.revoke(request.db, merchant_id, request.environment, number)
    except Refusal as refusal:
        return request.redirect_with_errors(back, refusal)
    return request.redirect(back, done=f"Key {name} revoked.")
