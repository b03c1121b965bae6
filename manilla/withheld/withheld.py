"""A movement between a wallet, the withheld money, and whoever takes it.

Disputes and shares of payments use it. A record holds an amount while it is open. When it ends, the
amount is released to the wallet, or taken. A record can also change its mind: what was taken can be
returned.
"""

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting
from manilla.posting_kinds import PostingKind

# The amounts that are withheld from wallets: by disputes, as held shares of payments, and as claims
# of the owners of payments on receivers that are short.
OPEN = """(
    SELECT merchant_id, environment, currency, withheld_minor AS minor FROM dispute
     WHERE status IN ('needs_response', 'submitted')
     UNION ALL
    SELECT merchant_id, environment, currency, withheld_minor FROM split WHERE status = 'held'
     UNION ALL
    SELECT owner_id, environment, currency, short_minor FROM split WHERE status = 'short')"""


class Holding(msgspec.Struct, frozen=True):
    """What a record holds, and what was taken because of it, in minor units."""

    withheld: int = 0
    taken: int = 0

    @property
    def total(self) -> int:
        return self.withheld + self.taken


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a record's holding."""

    merchant_id: int
    trx_id: str  # the record's id
    environment: Environment
    currency: str
    before: Holding
    after: Holding
    taker: str  # the account that gets what is taken
    kind: PostingKind = PostingKind.WITHHELD
    reason: str

    def posting(self) -> Posting | None:
        """Returns the posting of the difference, or None if nothing moves.

        The caller must add the number of the record's posting with `posting.with_number`.
        """
        withheld = self.after.withheld - self.before.withheld
        taken = self.after.taken - self.before.taken
        lines = posting.nonzero(Line(posting.WITHHELD, withheld), Line(self.taker, taken))
        if not lines:
            return None
        return Posting(
            merchant_id=self.merchant_id,
            trx_id=self.trx_id,
            kind=self.kind,
            environment=self.environment,
            wallet=Money(self.currency, -(withheld + taken)),
            lines=lines,
            reason=self.reason,
        )
