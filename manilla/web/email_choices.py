"""The page on which users of the dashboard and the console choose which emails they get."""

from manilla.mail import choices
from manilla.mail.kinds import RULES, Audience, MailKind, chosen_by
from manilla.people import members
from manilla.people.roles import Realm
from manilla.web.page_request import PageRequest
from manilla.web.routes import SIGNED_IN, Route
from manilla.web.serving.response import PageResponse


async def show(request: PageRequest) -> PageResponse:
    kinds = await _kinds(request)
    return request.page(
        "email_choices.html",
        kinds=[(kind, RULES[kind].title) for kind in kinds],
        chosen=await choices.of_person(request.db, request.visitor.person_id, kinds),
    )


async def save(request: PageRequest) -> PageResponse:
    wanted = [MailKind(each) for each in request.form.all("kind") if each in set(MailKind)]
    await choices.choose(request.db, request.visitor.person_id, await _kinds(request), wanted)
    return request.redirect("/account/email", done="Saved.")


async def _kinds(request: PageRequest) -> list[MailKind]:
    """Returns the types of email that the user can get, depending on the user's roles."""
    if request.realm is Realm.CONSOLE:
        return chosen_by(Audience.CONSOLE, [request.visitor.role or ""])
    theirs = await members.merchants_of(request.db, request.visitor.person_id)
    return chosen_by(Audience.MERCHANT, [each.role for each in theirs])


ROUTES = [
    Route("GET", "/account/email", show, SIGNED_IN),
    Route("POST", "/account/email", save, SIGNED_IN, is_account_wide=True),
]
