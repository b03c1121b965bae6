"""The merchant's users, their roles, and open invitations."""

from manilla.kit.errors import Refusal
from manilla.people import invitations, links, mail, members
from manilla.people.mail import Email
from manilla.people.roles import Permission, Realm, Role
from manilla.services import Services
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page

ROLES = (
    (Role.VIEWER.value, "Viewer: view everything except secrets"),
    (Role.FINANCE.value, "Finance: also create payouts and refunds, and manage saved accounts"),
    (
        Role.DEVELOPER.value,
        "Developer: also manage sandbox keys, gateways and notifications, but move no money",
    ),
    (Role.OWNER.value, "Owner: everything, including the team"),
)


class Team:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        needs = Permission.MANAGE_TEAM
        return [
            page("/team", self.show, Permission.VIEW),
            form("/team/invite", self.invite, needs, step_up=True),
            form("/team/invitations/{invitation:int}/withdraw", self.withdraw, needs),
            form("/team/{person:int}/role", self.change_role, needs, step_up=True),
            form("/team/{person:int}/remove", self.remove, needs, step_up=True),
        ]

    async def show(self, request: PageRequest, link: str | None = None) -> Answer:
        return request.page(
            "team.html",
            members=await members.list_of(self._desk.db, request.merchant_id),
            invitations=await invitations.list_open(self._desk.db, request.merchant_id),
            roles=ROLES,
            link=link,
        )

    async def invite(self, request: PageRequest) -> Answer:
        """Shows the link once, whether or not mail can be sent."""
        try:
            email, role = request.form.needed("email"), request.form.choice("role", Role)
            token = await invitations.invite(
                self._desk.db, request.visitor.person_id, request.merchant_id, email, role
            )
        except Refusal as refusal:
            return request.sent_back(
                "/team", refusal, keep=("email", "role"), at=((invitations.AlreadyMember, "email"),)
            )
        link = links.invitation(self._desk.base_url, Realm.DASHBOARD, token)
        self._desk.mailer.send_later(Email(mail.MailKind.INVITATION, email, link))
        return await self.show(request, link)

    async def withdraw(self, request: PageRequest) -> Answer:
        number = int(request.parameter("invitation"))
        await invitations.withdraw(self._desk.db, request.merchant_id, number)
        return request.redirect("/team", done="Invitation withdrawn.")

    async def change_role(self, request: PageRequest) -> Answer:
        person_id, role = int(request.parameter("person")), request.form.choice("role", Role)
        try:
            await members.change_role(self._desk.db, request.merchant_id, person_id, role)
        except members.LastOwner as refusal:
            return request.redirect("/team", failed=refusal.text)
        return request.redirect("/team", done="Role changed.")

    async def remove(self, request: PageRequest) -> Answer:
        person_id = int(request.parameter("person"))
        try:
            await members.remove(self._desk.db, request.merchant_id, person_id)
        except members.LastOwner as refusal:
            return request.redirect("/team", failed=refusal.text)
        return request.redirect("/team", done="Member removed.")
