"""Cases: the evidence on both sides, and the allowed resolutions."""

from typing import Any

from manilla.approvals import approvals
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import CaseResolution
from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import cases, listing
from manilla.cases.cases import NOTE_LENGTH_MAX, Case, CaseNotFound, Kind
from manilla.cases.listing import CaseFilter, CaseStatus
from manilla.cases.suspense import Action
from manilla.console import answers, evidence, queues
from manilla.console.providers import NAMES
from manilla.kit.errors import Refusal
from manilla.merchants import roster
from manilla.people.roles import Permission
from manilla.providers import status_query
from manilla.services import Services
from manilla.web import exports, lists
from manilla.web.forms import BadForm
from manilla.web.layout import NotHere
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page

TEMPLATE = "case.html"
CASE_ID_MAX = 2**63 - 1

TITLES: dict[str, str] = {
    Kind.PAID_AFTER_DECLINE: "Paid after decline",
    Kind.SECOND_CHARGE_PAID: "Paid twice",
    Kind.WALLET_FULL: "Wallet balance limit exceeded",
    Kind.WRONG_AMOUNT: "Wrong amount received",
    Kind.WEBHOOK_DISAGREES: "Webhook and status query disagree",
    Kind.UNKNOWN_REFERENCE: "Unknown reference",
    Kind.CONTRADICTION: "Provider contradicted a final status",
    Kind.CLEARING_DIFFERS: "Ledger and provider balance differ",
    Kind.STILL_OPEN: "Still pending at the provider",
    Kind.NO_ANSWER: "No answer from the provider",
}
ACTIONS: dict[str, str] = {
    Action.NOTHING: "Move nothing",
    Action.CREDIT: "Credit the merchant",
    Action.RETURN: "Return to the payer",
    Action.KEEP: "Keep for the platform",
    Action.WRITE_OFF: "Write off",
    Action.DEBIT: "Debit the merchant",
    Action.REVERSE: "Mark the payout as reversed",
}

COLUMNS = listing.FIELDS.select(
    "id merchant_id environment kind reference trx_id currency amount detail status resolution"
    " opened_at resolved_at"
)


class CasePages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        one, needs = "/cases/{case:int}", Permission.PAYOUT_DESK
        return [
            page("/cases", self.show_all, Permission.CONSOLE_VIEW),
            page(one, self.show, Permission.CONSOLE_VIEW),
            form(one + "/ask", self.ask, needs),
            form(one + "/close", self.close, needs),
            form(one + "/resolve", self.resolve, needs, step_up=True),
        ]

    async def show_all(self, request: PageRequest) -> Answer:
        db, scope = self._desk.db, queues.money_scope(request)
        status = queues.shown(request, "status", list(CaseStatus))
        kind = request.query.text("kind")
        wanted = CaseFilter(
            status=None if status == queues.ALL else CaseStatus(status),
            kind=Kind(kind) if kind in set(Kind) else None,
            since=lists.day(request.query, "since"),
            until=lists.day(request.query, "until", is_end=True),
            search=request.query.text("q") or None,
        )
        if exports.is_wanted(request):
            return exports.send(request, "cases", COLUMNS, listing.all_cases(db, scope, wanted))
        found = await listing.cases(db, scope, wanted, after=lists.after(request))
        return request.page(
            "cases.html",
            rows=found.rows,
            names=await roster.names(db, (row.merchant_id for row in found.rows)),
            listing=lists.ListView(request, found.next, views=queues.VIEWS),
            shown_status=status,
            titles=TITLES,
            kinds=[(each.value, TITLES[each]) for each in Kind],
        )

    async def show(self, request: PageRequest) -> Answer:
        return request.page(TEMPLATE, **await self._details(await self._case(request)))

    async def ask(self, request: PageRequest) -> Answer:
        """Renders a page instead of redirecting, because the provider's answer is not stored."""
        details = await self._details(await self._case(request))
        if details["evidence"].question is None:
            raise NotHere
        details["said"] = await status_query.ask(self._desk.rails, details["evidence"].question)
        return request.page(TEMPLATE, **details)

    async def resolve(self, request: PageRequest) -> Answer:
        """Resolves the case if the user may move money alone; otherwise requests an approval."""
        case = await self._case(request)
        try:
            action = request.form.choice("action", Action)
            note = request.form.needed("note", at_most=NOTE_LENGTH_MAX)
            resolution = CaseResolution(
                *(case.id, action, note, case.merchant_id or None, case.amount),
                needs_second=not request.may(Permission.MONEY_ALONE),
            )
            result = await apply_or_ask(self._desk.approvals, resolution, note)
        except BadForm as refusal:
            return request.refused(TEMPLATE, refusal, **await self._details(case))
        except Refusal as refusal:
            return request.refused(
                TEMPLATE, refusal, **await self._details(await self._case(request))
            )
        done = f"Resolved: {ACTIONS[action].lower()}."
        return answers.done_or_asked(request, f"/cases/{case.id}", result, done)

    async def close(self, request: PageRequest) -> Answer:
        """Closes a case whose difference is gone. No money moves."""
        case = await self._case(request)
        try:
            await cases.close_vanished(self._desk.db, case.id)
        except Refusal as refusal:
            return request.refused(
                TEMPLATE, refusal, **await self._details(await self._case(request))
            )
        return request.redirect(f"/cases/{case.id}", done="Closed: the difference is gone.")

    async def _case(self, request: PageRequest) -> Case:
        number = int(request.parameter("case"))
        if not 0 < number <= CASE_ID_MAX:
            raise NotHere
        try:
            return await cases.find(self._desk.db, number)
        except CaseNotFound:
            raise NotHere from None

    async def _details(self, case: Case) -> dict[str, Any]:
        db = self._desk.db
        about = AuditFilter(merchant_id=case.merchant_id or None, subject=f"case:{case.id}")
        return {
            "case": case,
            "title": TITLES.get(case.kind, case.kind),
            "names": await roster.names(db, [case.merchant_id]),
            "evidence": await evidence.gather(db, case),
            "said": None,
            "ways": await cases.ways(db, case),
            "actions": ACTIONS,
            "providers": NAMES,
            "history": await cases.history(db, case),
            "lines": await audit.listed(db, about),
            "approvals": [
                each for each in await approvals.waiting(db) if each.subject == about.subject
            ],
        }
