"""A dispute as the API and the events describe it."""

import time
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec

from manilla.disputes.dispute import Dispute, DisputeEvent, DisputeFile, DisputeStatus
from manilla.kit.clock import iso
from manilla.kit.fields import api_field

EVENT = "dispute"

MESSAGES = {
    DisputeEvent.OPENED: "Dispute Opened",
    DisputeEvent.UPDATED: "Dispute Updated",
    DisputeEvent.SUBMITTED: "Dispute Answered",
    DisputeEvent.REOPENED: "Dispute Reopened",
    DisputeEvent.WON: "Dispute Won",
    DisputeEvent.LOST: "Dispute Lost",
    DisputeEvent.ACCEPTED: "Dispute Accepted",
    DisputeEvent.DEADLINE_MISSED: "Dispute Deadline Missed",
}


class EvidenceFileInfo(msgspec.Struct, frozen=True):
    id: int
    name: str
    size: int


class EvidenceInfo(msgspec.Struct, frozen=True):
    text: str
    fields: dict[str, str]
    files: list[EvidenceFileInfo]


class DisputeInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    trx_id: str  # the same: receivers of notifications read this field of every transaction
    payment_trx_id: str
    ref_trx: str
    amount: Decimal
    currency: str
    status: Annotated[str, api_field("The dispute's status.", enum=list(DisputeStatus))]
    stage: str
    category: str
    reason: str
    provider_reference: str
    opened_at: str
    respond_by: str
    missed: bool
    withheld: Decimal
    short: Decimal
    fee: Decimal
    evidence: EvidenceInfo
    # Why the provider has rejected the evidence, in its words. Empty if it has not.
    rejection: str
    outcome_at: str | None
    environment: str


class DisputeNotice(msgspec.Struct, frozen=True):
    event: str
    data: DisputeInfo
    message: str
    status: str
    timestamp: int


def describe(dispute: Dispute, files: Sequence[DisputeFile]) -> DisputeInfo:
    evidence = EvidenceInfo(
        dispute.evidence_text,
        dict(dispute.fields),
        [EvidenceFileInfo(each.number, each.name, each.size_bytes) for each in files],
    )
    return DisputeInfo(
        id=dispute.trx_id,
        trx_id=dispute.trx_id,
        payment_trx_id=dispute.payment_trx_id,
        ref_trx=dispute.ref_trx,
        amount=dispute.amount.amount,
        currency=dispute.currency,
        status=dispute.status,
        stage=dispute.stage,
        category=dispute.category,
        reason=dispute.reason,
        provider_reference=dispute.provider_reference,
        opened_at=iso(dispute.opened_at),
        respond_by=iso(dispute.respond_by),
        missed=dispute.is_missed,
        withheld=dispute.withheld.amount,
        short=dispute.short.amount,
        fee=dispute.fee.amount,
        evidence=evidence,
        rejection=dispute.answer_detail if dispute.is_rejected else "",
        outcome_at=_iso(dispute.outcome_at),
        environment=dispute.environment,
    )


def describe_notice(
    dispute: Dispute, files: Sequence[DisputeFile], event: DisputeEvent
) -> DisputeNotice:
    data = describe(dispute, files)
    return DisputeNotice(EVENT, data, MESSAGES[event], dispute.status, int(time.time()))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
