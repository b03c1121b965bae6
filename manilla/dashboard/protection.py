"""The payout protection page: approval thresholds, allowed accounts and pending approvals."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from manilla.approvals import approvals, changes
from manilla.approvals.approvals import ApprovalNotFound
from manilla.approvals.changes import ApprovalRequested
from manilla.approvals.kinds import TeamChange
from manilla.audit.actor import current
from manilla.bulk import store as batches
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.payouts.protection import protection
from manilla.payouts.protection.protection import LockChange, ThresholdChange
from manilla.people import members, second_person
from manilla.people.roles import Permission
from manilla.web.display import describe_changes
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE = "~/protection"
ASKED = "This change weakens your payout protection, so another person must approve it."
REFUSED = "Rejected by a team member."


async def show(request: PageRequest) -> PageResponse:
    db, merchant_id = request.db, request.merchant_id
    caller = await request.caller()
    waiting = await approvals.waiting(db, team=merchant_id)
    person_id = request.visitor.person_id
    return request.page(
        "protection.html",
        currencies=sorted(caller.currencies),
        thresholds=await protection.thresholds(db, merchant_id),
        is_locked=await protection.is_locked(db, merchant_id),
        approves_from=await _approves_from(request),
        has_second=await second_person.has_second(db, merchant_id, person_id),
        batches=await batches.waiting(db, request.tenant),
        changes=[
            (each, describe_changes(each.detail), current.get().is_same_as(each.asked_by))
            for each in waiting
        ],
    )


async def _approves_from(request: PageRequest) -> datetime | None:
    """Returns from when this new member can approve changes, or None if the member can now."""
    start = await members.approves_from(request.db, request.merchant_id, request.visitor.person_id)
    return None if start is None or start <= datetime.now(UTC) else start


async def count_waiting(request: PageRequest) -> dict[str, int]:
    """Returns the numbers of pending approvals, for the navigation."""
    if request.visitor.merchant_id is None or not request.may(Permission.MOVE_MONEY):
        return {}
    tenant = Tenant(request.merchant_id, request.environment_or_none or Environment.SANDBOX)
    return {
        "~/payouts": await batches.count_waiting(request.db, tenant),
        PAGE: await approvals.count_waiting(request.db, team=request.merchant_id),
    }


async def set_threshold(request: PageRequest) -> PageResponse:
    caller, currency = await request.caller(), request.form.text("currency")
    try:
        if currency not in caller.currencies:
            raise BadForm(errors={"currency": "Choose one of your currencies."})
        is_on = bool(request.form.text("amount"))
        amount = request.form.money("amount", currency) if is_on else None
    except Refusal as refusal:
        return request.redirect_with_errors(PAGE, refusal, keep=("currency", "amount"))
    await request.confirm_identity()
    minor = None if amount is None else amount.minor
    change = ThresholdChange(request.merchant_id, currency, minor)
    return await _change(request, change, "Threshold saved.")


async def set_lock(request: PageRequest) -> PageResponse:
    is_locked = request.form.is_checked("locked")
    done = "Payouts now go only to saved accounts." if is_locked else "Payouts go to any account."
    await request.confirm_identity()
    return await _change(request, LockChange(request.merchant_id, is_locked), done)


async def _change(request: PageRequest, change: TeamChange, done: str) -> PageResponse:
    try:
        result = await changes.apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        return request.redirect(PAGE, failed=refusal.text)
    return request.redirect(PAGE, done=ASKED if isinstance(result, ApprovalRequested) else done)


async def approve(request: PageRequest) -> PageResponse:
    key, team = (request.approvals, int(request.parameter("approval"))), request.merchant_id
    try:
        await approvals.check_approval(*key, team=team)
    except ApprovalNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect(_page(request), failed=refusal.text)
    await request.confirm_identity()
    decision = approvals.approve(*key, team=team)
    return await _decide(request, decision, "Approved. The change was applied.")


async def refuse(request: PageRequest) -> PageResponse:
    number, team = int(request.parameter("approval")), request.merchant_id
    decision = approvals.refuse(request.approvals, number, REFUSED, team=team)
    return await _decide(request, decision, "Rejected. Nothing was changed.")


async def _decide(
    request: PageRequest, decision: Coroutine[Any, Any, object], done: str
) -> PageResponse:
    try:
        await decision
    except ApprovalNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect(_page(request), failed=refusal.text)
    return request.redirect(_page(request), done=done)


def _page(request: PageRequest) -> str:
    return f"/{request.form.choice('environment', Environment)}/protection"
