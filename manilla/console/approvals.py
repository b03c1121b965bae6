"""Changes that wait for a second administrator, and what became of those before."""

from manilla.approvals import approvals
from manilla.approvals.queries import Approval
from manilla.audit.actor import current
from manilla.console import answers
from manilla.console.desk import ConsoleDesk
from manilla.kit import listing
from manilla.kit.errors import Refusal
from manilla.people.roles import Permission
from manilla.web import lists
from manilla.web.door import NotAllowed
from manilla.web.lists import ROWS, ListView
from manilla.web.routes import Answer, Route, form, page
from manilla.web.shell import NotHere
from manilla.web.visit import Visit


class ApprovalPages:
    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        one = "/approvals/{approval:int}"
        return [
            page("/approvals", self.show, Permission.CONSOLE_VIEW),
            # Whatever is approved, an administrator could have done it; operations may only ask.
            form(one + "/approve", self.approve, Permission.PLATFORM, step_up=True),
            form(one + "/refuse", self.refuse, Permission.PAYOUT_DESK, step_up=True),
        ]

    async def show(self, visit: Visit) -> Answer:
        db = self._desk.db
        before = listing.read_cursor(int, lists.after(visit))
        rows = await approvals.listed(db, before, ROWS)
        following = listing.cursor(rows[-1].id) if len(rows) == ROWS else None
        return visit.page(
            "approvals.html",
            waiting=await approvals.waiting(db) if before is None else [],
            decided=[row for row in rows if row.status != "waiting"],
            listing=ListView(visit, following),
            is_own=_is_own,
        )

    async def approve(self, visit: Visit) -> Answer:
        number = _number(visit)
        try:
            await approvals.approve(self._desk.office, number)
        except approvals.ApprovalNotFound:
            raise
        except Refusal as refusal:
            return answers.sent_back(visit, "/approvals", refusal)
        return visit.redirect("/approvals", done=f"Approval {number}: done, as it was asked for.")

    async def refuse(self, visit: Visit) -> Answer:
        """Operations may take back what they asked for, and no more."""
        number = _number(visit)
        asked = await approvals.find(self._desk.db, number)
        if not (visit.may(Permission.PLATFORM) or _is_own(asked)):
            raise NotAllowed
        try:
            reason = visit.form.needed("reason", at_most=approvals.REASON_LENGTH_MAX)
            await approvals.refuse(self._desk.office, number, reason)
        except Refusal as refusal:
            return answers.sent_back(visit, "/approvals", refusal)
        return visit.redirect("/approvals", done=f"Approval {number} is refused.")


def _is_own(asked: Approval) -> bool:
    """Whether the visitor has asked for it."""
    return current.get().is_same_as(asked.asked_by)


def _number(visit: Visit) -> int:
    number = int(visit.parameter("approval"))
    if not 0 < number <= approvals.ID_MAX:
        raise NotHere
    return number
