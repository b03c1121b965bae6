"""Settles a balance like a user, who reviews the settlement and then confirms it."""

import re

from tests.support.client import Reply
from tests.web.signed_in_user import SignedInUser

SETTLEMENTS = "/sandbox/settlements"
_FIELD = re.compile(r'name="(currency|amount|account)" value="([^"]*)"')


async def settle(user: SignedInUser, page: str = SETTLEMENTS, **more: str) -> Reply:
    """Returns the response to the confirmation, or to the review if there is nothing to settle."""
    review = await user.get(f"{page}/new?currency=NGN")
    if review.status != 200:
        return review
    fields = dict(_FIELD.findall(review.body.decode()))
    return await user.post(page, {**fields, **more})
