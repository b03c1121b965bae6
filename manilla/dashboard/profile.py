"""The business profile page: approval, verification, phone, the owner's BVN and branding."""

from typing import Any

from manilla.dashboard import uploads
from manilla.kit.errors import Refusal
from manilla.merchants import branding, logo, merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.people import persons
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

# The maximum size of the form, which contains the logo and some small fields.
UPLOAD_BYTES_MAX = 2 * logo.FILE_BYTES_MAX


async def show(request: PageRequest) -> PageResponse:
    return request.page("profile.html", **await _values(request))


async def _values(request: PageRequest) -> dict[str, Any]:
    return {
        "merchant": await merchants.get(request.db, request.merchant_id),
        "person": await persons.get(request.db, request.visitor.person_id),
        "settings": request.services.platform.now,
        "branding": await branding.find(request.db, request.merchant_id),
    }


async def change_branding(request: PageRequest) -> PageResponse:
    form, merchant_id = request.form, request.merchant_id
    contact = form.text("support_email", at_most=300), form.text("support_phone", at_most=300)
    try:
        picture = await _read_logo(request)
        await branding.change(request.db, merchant_id, form.text("accent", at_most=300), *contact)
        if picture is not None or form.is_checked("remove_logo"):
            await branding.set_logo(request.db, merchant_id, picture)
    except Refusal as refusal:
        at = ((logo.BadLogo, "logo"),)
        return request.form_with_errors("profile.html", refusal, at=at, **await _values(request))
    return request.redirect("/profile", done="Branding saved.")


async def _read_logo(request: PageRequest) -> bytes | None:
    """Returns the uploaded logo as a re-encoded image, or None if no file was uploaded."""
    if not request.form.has_file("logo"):
        return None
    await uploads.count(request)
    return await logo.encode(request.form.file("logo").content)


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
