"""Sign-up: creates a merchant, its owner, and keys for both environments."""

from manilla.kit.errors import Refusal
from manilla.merchants.merchants import BadMerchant
from manilla.people import devices, sign_up
from manilla.people.passwords import WeakPassword
from manilla.people.roles import Realm
from manilla.services import Services
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page

AT_FIELD = (
    (BadMerchant, "business_name"),
    (WeakPassword, "password"),
    (sign_up.SignUpRefused, "email"),
)


class SignUp:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [page("/sign-up", self.show, None), form("/sign-up", self.sign_up, None)]

    async def show(self, request: PageRequest) -> Answer:
        return request.page("sign_up.html")

    async def sign_up(self, request: PageRequest) -> Answer:
        try:
            new = await sign_up.sign_up(
                self._desk.db,
                self._desk.keyring,
                business_name=request.form.needed("business_name", at_most=100),
                name=request.form.needed("name", at_most=100),
                email=request.form.needed("email"),
                password=request.form.secret("password"),
                address=request.address,
                user_agent=request.user_agent,
            )
        except Refusal as refusal:
            return request.refused("sign_up.html", refusal, at=AT_FIELD)
        request.begin(new.session)
        person_id = new.session.person_id
        request.remember_device(devices.issue(self._desk.keyring, Realm.DASHBOARD, person_id))
        # Render a page instead of redirecting, because the secrets are shown only once.
        return request.page("welcome.html", merchant=new.merchant)
