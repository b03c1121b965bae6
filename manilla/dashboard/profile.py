"""The business profile: approval, KYC, phone and the owner's BVN."""

from manilla.dashboard.desk import Desk
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import Change
from manilla.people import persons
from manilla.people.roles import Permission
from manilla.web.routes import Answer, Route, form, page
from manilla.web.visit import Visit


class Profile:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [
            page("/profile", self.show, Permission.VIEW),
            form("/profile", self.change, Permission.PROFILE),
            form("/profile/bvn", self.set_bvn, Permission.PROFILE, step_up=True),
        ]

    async def show(self, visit: Visit) -> Answer:
        return visit.page(
            "profile.html",
            merchant=await merchants.get(self._desk.db, visit.merchant_id),
            person=await persons.get(self._desk.db, visit.visitor.person_id),
            settings=self._desk.platform.now,
        )

    async def change(self, visit: Visit) -> Answer:
        try:
            await persons.change_profile(
                self._desk.db,
                visit.visitor.person_id,
                visit.form.needed("name", at_most=100),
                visit.form.text("phone"),
            )
        except Refusal as refusal:
            return visit.sent_back("/profile", refusal, keep=("name", "phone"))
        return visit.redirect("/profile", done="Saved.")

    async def set_bvn(self, visit: Visit) -> Answer:
        """Encrypts and stores the BVN. It is never shown again."""
        change = Change(bvn=visit.form.text("bvn"))
        try:
            await merchants.change(self._desk.db, self._desk.keyring, visit.merchant_id, change)
        except Refusal as refusal:
            return visit.sent_back("/profile", refusal, at=((merchants.BadMerchant, "bvn"),))
        return visit.redirect("/profile", done="BVN saved. It is never shown again.")
