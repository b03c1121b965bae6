"""Explains why a payout is waiting, for the pages of merchants and administrators."""

from datetime import datetime

import msgspec

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import decisions
from manilla.payouts.payout import Payout
from manilla.providers.port import Direction
from manilla.providers.rails import Rails

NOT_SENT = "The payout has not been sent yet. It will be sent automatically."
SENT = "The payout was already sent. Its status is queried automatically, and it is not sent twice."
# The texts that merchants see for these holds. For other holds, they see the administrators' text.
FOR_MERCHANTS = {
    OutgoingHold.MERCHANT_DISABLED: "Your account is disabled.",
    OutgoingHold.MERCHANT_REJECTED: "Your account was rejected.",
    OutgoingHold.MERCHANT_PENDING: "Your account is not approved.",
    OutgoingHold.MERCHANT_PAYOUTS_OFF: "Payouts are disabled for your account.",
}


class WaitingReason(msgspec.Struct, frozen=True):
    hold: OutgoingHold | None
    # When the provider stopped responding, or None if the payout waits for another reason.
    down_since: datetime | None
    is_sent: bool

    @property
    def version(self) -> str:
        """A key that polling pages use to detect that the reason has changed."""
        return f"{self.hold or 'down'}-{self.is_sent}"

    @property
    def for_merchants(self) -> str:
        return self._text(FOR_MERCHANTS)

    @property
    def for_administrators(self) -> str:
        return self._text({})

    def _text(self, texts: dict[OutgoingHold, str]) -> str:
        if self.hold is not None:
            return f"{texts.get(self.hold, self.hold.text)} {NOT_SENT}"
        return f"The provider is not available. {SENT if self.is_sent else NOT_SENT}"


async def waiting_reason(db: Database, rails: Rails, payout: Payout) -> WaitingReason | None:
    """Returns why a payout is not sent or queried now, or None if it is not delayed.

    Returns None for manual payouts, which wait for a person, and for sandbox payouts.
    """
    is_real = payout.environment is Environment.PRODUCTION
    if not payout.is_open or payout.provider is None or not is_real:
        return None
    hold = await decisions.hold_of(db, payout)
    down_since = rails.down_since(payout.provider, Direction.PAY_OUT)
    if hold is None and down_since is None and rails.adapter(payout.provider) is not None:
        return None
    return WaitingReason(hold, down_since, payout.sent_at is not None)
