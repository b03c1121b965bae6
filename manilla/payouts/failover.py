"""Moves a payout to another rail if its current rail will not pay."""

from functools import partial

from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job
from manilla.payouts import attempts
from manilla.payouts.attempts import AttemptEnd, AttemptFailure
from manilla.payouts.payout import Payout
from manilla.providers.port import RefusalCode, Refused, Unknown
from manilla.providers.slots import ProviderSlots
from manilla.routing.router import PayoutTarget, Router
from manilla.transfers.refusals import ProviderBusy

# These errors mean that every rail would reject the transfer.
ABOUT_THE_BENEFICIARY = (RefusalCode.INVALID_BENEFICIARY,)


class Failover:
    def __init__(self, db: Database, router: Router) -> None:
        self._db = db
        self._router = router

    async def move(
        self,
        payout: Payout,
        answer: Refused | Unknown,
        job: Job,
        slots: ProviderSlots,
        *,
        was_sent: bool,
    ) -> bool:
        """Moves the payout to another rail. Returns False if the payout stays on its rail.

        `answer` must be the response to the first transfer request, unless none was sent. Holds a
        slot of the other rail's provider. If an unsent payout gets none, raises `ProviderBusy`. A
        rejected payout cannot wait: it would be returned to the merchant's wallet.
        """
        if isinstance(answer, Refused) and answer.code in ABOUT_THE_BENEFICIARY:
            return False
        tried = await attempts.attempts(self._db, payout.merchant_id, payout.trx_id)
        resolved = [payout.account_name, *(each.account_name for each in tried)]
        try:
            target = PayoutTarget(
                amount=payout.amount,
                bank=self._router.bank(payout.bank),
                account_number=payout.account_number,
                environment=payout.environment,
                account_names=tuple(name for name in resolved if name),
            )
            hold_place = partial(slots.hold, is_urgent=was_sent)
            route = await self._router.route(target, {each.provider for each in tried}, hold_place)
        except Refusal as refusal:
            if isinstance(refusal, ProviderBusy) and not was_sent:
                raise
            return False
        return await attempts.move(self._db, payout, _failure_of(answer, was_sent), route, job)


def _failure_of(answer: Refused | Unknown, was_sent: bool) -> AttemptFailure:
    match answer:
        case Refused(_, guidance):
            text = f"rejected the transfer: {guidance.rstrip('.')}."
            return AttemptFailure(AttemptEnd.REJECTED, text, was_sent)
        case Unknown(reason):
            text = f"never received the transfer: {reason.rstrip('.')}."
            return AttemptFailure(AttemptEnd.NOT_RECEIVED, text, was_sent)
