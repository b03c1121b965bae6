"""The page for managing console users: invitations, roles, second factors and access."""

from collections.abc import Awaitable, Callable

from manilla.console import list_pages
from manilla.kit.errors import Refusal
from manilla.people import console_people, links, persons, resets, second_factor
from manilla.people.queries import Person
from manilla.people.roles import ConsoleRole, Permission, Realm, permissions_of
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

ROLES = (
    (ConsoleRole.SUPPORT.value, "Support: view everything and resend notifications"),
    (ConsoleRole.OPERATIONS.value, "Operations: also manage merchants, payouts, refunds and cases"),
    (ConsoleRole.ADMINISTRATOR.value, "Administrator: everything, including users and settings"),
)


class OperatorNeeded(Refusal):
    status, code = 403, "OPERATOR_NEEDED"
    message = (
        "In production mode only the operator can do this, on the command line: `manilla user"
        " add`, `user role`, `user reset` or `user totp-off`, with `--realm console`."
    )


async def show(request: PageRequest, link: str | None = None, about: str = "") -> PageResponse:
    return request.page(
        "people.html",
        people=await console_people.list_all(request.db),
        roles=ROLES,
        link=link,
        about=about,
    )


async def add(request: PageRequest) -> PageResponse:
    try:
        role = request.form.choice("role", ConsoleRole)
        _require_operator(request, role)
        email = persons.read_email(request.form.required("email"))
        name = request.form.required("name", at_most=persons.NAME_LENGTH_MAX)
        await request.confirm_identity()
        new = await console_people.create(
            request.db,
            request.services.keyring,
            email=email,
            name=name,
            role=role,
            by=request.visitor.person_id,
        )
    except Refusal as refusal:
        keep = ("name", "email", "role")
        return request.redirect_with_errors(
            "/people", refusal, keep=keep, at=((persons.EmailTaken, "email"),)
        )
    assert new.token is not None
    return await _invited(request, new.person, new.token)


async def new_link(request: PageRequest) -> PageResponse:
    """Creates a link for choosing a password: an invitation for new users, otherwise a reset."""
    about, person = (request.db, request.services.keyring), await _person(request)
    try:
        _require_operator_for(request, person)
    except Refusal as refusal:
        return request.redirect_with_errors("/people", refusal)
    if not person.has_password:
        token = await console_people.invite_again(*about, person.id, request.visitor.person_id)
        return await _invited(request, person, token)
    path = links.reset(Realm.CONSOLE, await resets.begin(*about, person.id))
    link = request.services.base_url + path
    return await show(request, link, f"{person.email} can use this link to choose a new password.")


async def change_role(request: PageRequest) -> PageResponse:
    role = request.form.choice("role", ConsoleRole)

    async def change(person: Person) -> None:
        _require_operator(request, role, person.console_role)
        await console_people.change_role(request.db, person.id, role)

    return await _do(request, change, f"role changed to {role}.")


async def disable(request: PageRequest) -> PageResponse:
    return await _do(
        request,
        lambda person: persons.disable(request.db, person.id),
        "disabled and signed out everywhere.",
    )


async def enable(request: PageRequest) -> PageResponse:
    return await _do(
        request,
        lambda person: persons.enable(request.db, person.id),
        "enabled. The user can sign in again.",
    )


async def reset_second_factor(request: PageRequest) -> PageResponse:
    async def reset(person: Person) -> None:
        _require_operator_for(request, person)
        await second_factor.remove(request.db, person.id)

    done = "second factor removed, all sessions ended. The user sets up a new one at sign-in."
    return await _do(request, reset, done)


async def sign_out(request: PageRequest) -> PageResponse:
    return await _do(
        request,
        lambda person: persons.sign_out(request.db, person.id),
        "signed out everywhere.",
    )


def _require_operator(request: PageRequest, role: str | None, before: str | None = None) -> None:
    # One person must not be able to request a change and then approve it as another user.
    # An administrator could otherwise approve their own request with a new user's invitation link.
    # Support users can neither request nor approve changes, so administrators may add them.
    if request.services.is_development:
        return
    may = permissions_of(role)
    if Permission.PAYOUT_DESK in may and not may <= permissions_of(before):
        raise OperatorNeeded


def _require_operator_for(request: PageRequest, person: Person) -> None:
    if person.id != request.visitor.person_id:
        _require_operator(request, person.console_role)


async def _do(
    request: PageRequest, work: Callable[[Person], Awaitable[object]], done: str
) -> PageResponse:
    person = await _person(request)
    try:
        await work(person)
    except Refusal as refusal:
        return request.redirect_with_errors("/people", refusal)
    return request.redirect("/people", done=f"{person.email}: {done}")


async def _invited(request: PageRequest, person: Person, token: str) -> PageResponse:
    """Shows the invitation link once, even if the invitation was also sent by email."""
    link = request.services.base_url + links.invitation(Realm.CONSOLE, token)
    return await show(request, link, f"{person.email} can use this link to choose a password.")


async def _person(request: PageRequest) -> Person:
    """Returns the console user. Raises `PageNotFound` for a dashboard user."""
    person = await persons.get(request.db, list_pages.path_number(request, "person"))
    if person.realm != Realm.CONSOLE:
        raise PageNotFound
    return person
