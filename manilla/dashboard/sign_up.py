"""Sign-up: creates a merchant and its owner, and shows the keys for the sandbox."""

from manilla.kit.errors import Refusal
from manilla.merchants.merchants import BadMerchant
from manilla.people import devices, sign_up
from manilla.people.passwords import WeakPassword
from manilla.people.roles import Realm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

AT_FIELD = (
    (BadMerchant, "business_name"),
    (WeakPassword, "password"),
    (sign_up.SignUpRefused, "email"),
)


async def show(request: PageRequest) -> PageResponse:
    return request.page("sign_up.html")


async def submit(request: PageRequest) -> PageResponse:
    try:
        new = await sign_up.sign_up(
            request.db,
            request.services.keyring,
            business_name=request.form.required("business_name", at_most=100),
            name=request.form.required("name", at_most=100),
            email=request.form.required("email"),
            password=request.form.secret("password"),
            address=request.address,
            user_agent=request.user_agent,
        )
    except Refusal as refusal:
        return request.form_with_errors("sign_up.html", refusal, at=AT_FIELD)
    request.start_session(new.session)
    person_id = new.session.person_id
    request.remember_device(devices.issue(request.services.keyring, Realm.DASHBOARD, person_id))
    # Render a page instead of redirecting, because the secrets are shown only once.
    return request.page("welcome.html", merchant=new.merchant, base_url=request.services.base_url)
