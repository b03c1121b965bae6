"""Sign-up: creates a merchant, its owner, and keys for both environments."""

from manilla.dashboard.desk import Desk
from manilla.kit.errors import Refusal
from manilla.merchants.merchants import BadMerchant
from manilla.people import devices, sign_up
from manilla.people.passwords import WeakPassword
from manilla.people.roles import Realm
from manilla.web.routes import Answer, Route, form, page
from manilla.web.visit import Visit

AT_FIELD = (
    (BadMerchant, "business_name"),
    (WeakPassword, "password"),
    (sign_up.SignUpRefused, "email"),
)


class SignUp:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [page("/sign-up", self.show, None), form("/sign-up", self.sign_up, None)]

    async def show(self, visit: Visit) -> Answer:
        return visit.page("sign_up.html")

    async def sign_up(self, visit: Visit) -> Answer:
        try:
            new = await sign_up.sign_up(
                self._desk.db,
                self._desk.keyring,
                business_name=visit.form.needed("business_name", at_most=100),
                name=visit.form.needed("name", at_most=100),
                email=visit.form.needed("email"),
                password=visit.form.secret("password"),
                address=visit.address,
                user_agent=visit.user_agent,
            )
        except Refusal as refusal:
            return visit.refused("sign_up.html", refusal, at=AT_FIELD)
        visit.begin(new.session)
        person_id = new.session.person_id
        visit.remember_device(devices.issue(self._desk.keyring, Realm.DASHBOARD, person_id))
        # Render a page instead of redirecting, because the secrets are shown only once.
        return visit.page("welcome.html", merchant=new.merchant)
