"""The team page: the merchant's users, their roles, and pending invitations."""

from datetime import UTC, datetime

from manilla.kit.errors import Refusal
from manilla.people import invitations, links, members, persons, throttle
from manilla.people.roles import Realm, Role
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

ROLES = (
    (Role.VIEWER.value, "Viewer: view everything except secrets"),
    (Role.FINANCE.value, "Finance: also create payouts and refunds, and manage saved accounts"),
    (
        Role.DEVELOPER.value,
        "Developer: also manage sandbox keys, gateways and notifications, but not move money",
    ),
    (Role.OWNER.value, "Owner: everything, including the team"),
)


async def show(request: PageRequest, link: str | None = None) -> PageResponse:
    return request.page(
        "team.html",
        members=await members.list_of(request.db, request.merchant_id),
        invitations=await invitations.list_open(request.db, request.merchant_id),
        roles=ROLES,
        link=link,
        now=datetime.now(UTC),
    )


async def invite(request: PageRequest) -> PageResponse:
    """Creates an invitation and shows its link once, even if the link was also sent by email."""
    try:
        email = persons.read_email(request.form.required("email"))
        role = request.form.choice("role", Role)
        await request.confirm_identity()
        await throttle.take(request.db, throttle.inviting(request.merchant_id, email))
        token = await invitations.invite(
            request.db,
            request.services.keyring,
            request.visitor.person_id,
            request.merchant_id,
            email,
            role,
        )
    except Refusal as refusal:
        return request.redirect_with_errors(
            "/team", refusal, keep=("email", "role"), at=((members.AlreadyMember, "email"),)
        )
    path = links.invitation(Realm.DASHBOARD, token)
    return await show(request, request.services.base_url + path)


async def withdraw(request: PageRequest) -> PageResponse:
    number = int(request.parameter("invitation"))
    await invitations.withdraw(request.db, request.merchant_id, number)
    return request.redirect("/team", done="Invitation canceled.")


async def change_role(request: PageRequest) -> PageResponse:
    person_id, role = int(request.parameter("person")), request.form.choice("role", Role)
    try:
        await members.change_role(request.db, request.merchant_id, person_id, role)
    except members.LastOwner as refusal:
        return request.redirect("/team", failed=refusal.text)
    return request.redirect("/team", done="Role changed.")


async def remove(request: PageRequest) -> PageResponse:
    person_id = int(request.parameter("person"))
    try:
        await members.remove(request.db, request.merchant_id, person_id)
    except members.LastOwner as refusal:
        return request.redirect("/team", failed=refusal.text)
    return request.redirect("/team", done="Member removed.")
