"""The business profile page: approval, verification, phone and the owner's BVN."""

from typing import Any

from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.people import persons
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse


async def show(request: PageRequest) -> PageResponse:
    return request.page("profile.html", **await _values(request))


async def _values(request: PageRequest) -> dict[str, Any]:
    return {
        "merchant": await merchants.get(request.db, request.merchant_id),
        "person": await persons.get(request.db, request.visitor.person_id),
        "settings": request.services.platform.now,
    }


async def change(request: PageRequest) -> PageResponse:
    try:
        await persons.change_profile(
            request.db,
            request.visitor.person_id,
            request.form.required("name", at_most=100),
            request.form.text("phone"),
        )
    except Refusal as refusal:
        return request.redirect_with_errors("/profile", refusal, keep=("name", "phone"))
    return request.redirect("/profile", done="Saved.")


async def set_bvn(request: PageRequest) -> PageResponse:
    """Stores the owner's BVN encrypted. No page shows the BVN again."""
    change = MerchantUpdate(bvn=request.form.text("bvn"))
    try:
        merchants.check_change(change)
        await request.confirm_identity()
        await merchants.change(request.db, request.services.keyring, request.merchant_id, change)
    except Refusal as refusal:
        return request.redirect_with_errors(
            "/profile", refusal, at=((merchants.BadMerchant, "bvn"),)
        )
    return request.redirect("/profile", done="BVN saved. It will not be shown again.")
