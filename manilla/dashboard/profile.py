"""The business profile: approval, KYC, phone and the owner's BVN."""

from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.people import persons
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page


class Profile:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [
            page("/profile", self.show, Permission.VIEW),
            form("/profile", self.change, Permission.PROFILE),
            form("/profile/bvn", self.set_bvn, Permission.PROFILE, step_up=True),
        ]

    async def show(self, request: PageRequest) -> Answer:
        return request.page(
            "profile.html",
            merchant=await merchants.get(self._desk.db, request.merchant_id),
            person=await persons.get(self._desk.db, request.visitor.person_id),
            settings=self._desk.platform.now,
        )

    async def change(self, request: PageRequest) -> Answer:
        try:
            await persons.change_profile(
                self._desk.db,
                request.visitor.person_id,
                request.form.needed("name", at_most=100),
                request.form.text("phone"),
            )
        except Refusal as refusal:
            return request.sent_back("/profile", refusal, keep=("name", "phone"))
        return request.redirect("/profile", done="Saved.")

    async def set_bvn(self, request: PageRequest) -> Answer:
        """Encrypts and stores the BVN. It is never shown again."""
        change = MerchantUpdate(bvn=request.form.text("bvn"))
        try:
            await merchants.change(self._desk.db, self._desk.keyring, request.merchant_id, change)
        except Refusal as refusal:
            return request.sent_back("/profile", refusal, at=((merchants.BadMerchant, "bvn"),))
        return request.redirect("/profile", done="BVN saved. It is never shown again.")
