"""What a merchant does with a dispute: accept it, or contest it with evidence.

An answer is saved at once, and the dispute is then `submitted`. A job sends the answer. If the
provider rejects it, the dispute needs a response again, with the provider's words.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal

import msgspec

from manilla.disputes import evidence, states, store
from manilla.disputes.dispute import (
    FIELD_LENGTH_MAX,
    FIELDS_MAX,
    TEXT_LENGTH_MAX,
    AnswerState,
    DeadlinePassed,
    Dispute,
    DisputeClosed,
    DisputeFile,
    DisputeStatus,
    EvidenceIncomplete,
    EvidenceRejected,
)
from manilla.disputes.states import DisputeChange
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.kit.texts import LINE_ENDS, has_controls
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import DisputeDesk, EvidenceField
from manilla.providers.rails import Rails


class BadAcceptedAmount(Refusal):
    status, code = 400, "INVALID_AMOUNT"
    message = "The accepted amount must be above zero, and at most what the dispute withholds."


class BadEvidence(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The evidence is not valid."


class DisputeService:
    def __init__(
        self, db: Database, keyring: Keyring, platform: CurrentSettings, rails: Rails
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._platform = platform
        self._rails = rails

    async def get(self, tenant: Tenant, trx_id: str) -> Dispute:
        return await store.of_tenant(self._db, tenant, trx_id)

    async def files(self, tenant: Tenant, trx_id: str) -> list[DisputeFile]:
        found = await self.get(tenant, trx_id)
        return await store.files_of(self._db, found.merchant_id, found.trx_id)

    def evidence_fields(self, dispute: Dispute) -> tuple[EvidenceField, ...]:
        """Returns the values that the provider asks for in an answer."""
        api = api_of(self._rails, dispute)
        return () if api is None else api.evidence_fields(dispute.category)

    async def accept(
        self,
        tenant: Tenant,
        trx_id: str,
        amount: Decimal | None = None,
        remember: Remember = without_key,
    ) -> Dispute:
        """Accepts the dispute for this amount or, by default, for all that it withholds."""
        async with self._answerable(tenant, trx_id) as (change, dispute):
            accepted = _accepted(dispute, amount)
            detail = f"the merchant accepts {accepted}"
            answered = await self._answer(change, dispute, accepted.minor, detail)
            await remember(change.connection, answered)
            return answered

    async def submit(
        self, tenant: Tenant, trx_id: str, remember: Remember = without_key
    ) -> Dispute:
        """Contests the dispute with the evidence that was saved."""
        async with self._answerable(tenant, trx_id) as (change, dispute):
            if dispute.is_rejected:
                raise EvidenceRejected(
                    f"The provider has rejected this evidence: {dispute.answer_detail}"
                )
            files = await store.files_of(change.connection, *_key(dispute))
            missing = self._missing(dispute, files)
            if missing:
                raise EvidenceIncomplete(errors=missing)
            answered = await self._answer(change, dispute, None, "the merchant contests it")
            await remember(change.connection, answered)
            return answered

    async def set_evidence(
        self,
        tenant: Tenant,
        trx_id: str,
        text: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Dispute:
        """Replaces the text, the fields, or both."""
        _check_evidence(text, fields)
        async with self._answerable(tenant, trx_id) as (change, dispute):
            encoded = None if fields is None else msgspec.json.encode(dict(fields)).decode()
            await change.connection.execute(
                """
                UPDATE dispute SET evidence_text = coalesce($3, evidence_text),
                       evidence_fields = coalesce($4::jsonb, evidence_fields)
                 WHERE merchant_id = $1 AND trx_id = $2""",
                *(*_key(dispute), text, encoded),
            )
            return await _changed(change.connection, dispute)

    async def add_file(
        self,
        tenant: Tenant,
        trx_id: str,
        name: str,
        content: bytes,
        remember: Remember = without_key,
    ) -> DisputeFile:
        async with self._answerable(tenant, trx_id) as (change, dispute):
            added = await evidence.add(change.connection, self._keyring, dispute, name, content)
            await _changed(change.connection, dispute)
            await remember(change.connection, added)
            return added

    async def remove_file(self, tenant: Tenant, trx_id: str, number: int) -> None:
        async with self._answerable(tenant, trx_id) as (change, dispute):
            await evidence.remove(change.connection, dispute, number)
            await _changed(change.connection, dispute)

    async def read_file(
        self, tenant: Tenant, trx_id: str, number: int
    ) -> tuple[DisputeFile, bytes]:
        found = await self.get(tenant, trx_id)
        file = await evidence.find(self._db, found, number)
        return file, await evidence.read(self._db, self._keyring, file)

    @asynccontextmanager
    async def _answerable(
        self, tenant: Tenant, trx_id: str
    ) -> AsyncIterator[tuple[DisputeChange, Dispute]]:
        """Locks the dispute's payment. Raises an error if the dispute needs no answer now."""
        first = await self.get(tenant, trx_id)
        async with states.changing(self._db, self._platform.now, first) as (change, dispute):
            if dispute.status is not DisputeStatus.NEEDS_RESPONSE:
                raise DisputeClosed(f"The dispute is {dispute.status}: it needs no response now.")
            if dispute.is_due:
                raise DeadlinePassed
            yield change, dispute

    async def _answer(
        self, change: DisputeChange, dispute: Dispute, accepted_minor: int | None, detail: str
    ) -> Dispute:
        ready = ready_state(self._rails, dispute)
        return await change.answer(dispute, accepted_minor, detail, ready)

    def _missing(self, dispute: Dispute, files: list[DisputeFile]) -> dict[str, str]:
        given, api = dispute.fields, api_of(self._rails, dispute)
        missing = {
            each.name: f"{each.title} is required."
            for each in self.evidence_fields(dispute)
            if each.is_required and not given.get(each.name, "").strip()
        }
        if not (dispute.evidence_text.strip() or files or given):
            missing["text"] = "Enter a text, or add a file."
        if api is not None and api.needs_file and not files:
            missing["files"] = "The provider needs a file, such as a receipt."
        if api is not None and 0 < api.files_max < len(files):
            missing["files"] = f"The provider takes at most {api.files_max} files."
        return missing


def api_of(rails: Rails, dispute: Dispute) -> DisputeDesk | None:
    """Returns the provider's API, or None if it has none or does not know the dispute's id."""
    adapter = None if dispute.is_from_statement else rails.adapter(dispute.provider)
    return None if adapter is None else adapter.disputes


def ready_state(rails: Rails, dispute: Dispute) -> AnswerState:
    """Returns who sends an answer that nobody has to review: a job, or an administrator."""
    can_send = dispute.is_sandbox or api_of(rails, dispute) is not None
    return AnswerState.WAITING if can_send else AnswerState.MANUAL


async def _changed(connection: Connection, dispute: Dispute) -> Dispute:
    """Records that the evidence differs from what the provider may have rejected."""
    await connection.execute(
        """
        UPDATE dispute SET updated_at = now(),
               answer_detail = CASE WHEN answer = 'rejected' THEN '' ELSE answer_detail END,
               answer = nullif(answer, 'rejected')
         WHERE merchant_id = $1 AND trx_id = $2""",
        *_key(dispute),
    )
    after = await store.dispute(connection, *_key(dispute))
    assert after is not None
    return after


def _key(dispute: Dispute) -> tuple[int, str]:
    return dispute.merchant_id, dispute.trx_id


def _accepted(dispute: Dispute, amount: Decimal | None) -> Money:
    try:
        accepted = dispute.withheld if amount is None else Money.of(amount, dispute.currency)
    except MoneyError as error:
        raise BadAcceptedAmount.at("amount", str(error)) from None
    # The customer has already got back what a refund of the payment, or another dispute, covers.
    if not 0 < accepted.minor <= dispute.withheld_minor:
        raise BadAcceptedAmount.at("amount", BadAcceptedAmount.message)
    return accepted


def _check_evidence(text: str | None, fields: Mapping[str, str] | None) -> None:
    errors: dict[str, str] = {}
    if text is not None and len(text) > TEXT_LENGTH_MAX:
        errors["text"] = f"Use at most {TEXT_LENGTH_MAX} characters."
    elif text is not None and has_controls(text, allowed=LINE_ENDS):
        errors["text"] = "Use text without control characters."
    if fields is not None and len(fields) > FIELDS_MAX:
        errors["fields"] = f"Use at most {FIELDS_MAX} fields."
    for name, value in (fields or {}).items():
        is_long = len(name) > FIELD_LENGTH_MAX or len(value) > FIELD_LENGTH_MAX
        if is_long or has_controls(name) or has_controls(value, allowed=LINE_ENDS):
            errors["fields"] = f"Use names and values of at most {FIELD_LENGTH_MAX} characters."
    if errors:
        raise BadEvidence(errors=errors)
