"""Ledger invariants about shares of payments."""

from manilla.job_kinds import JobKind
from manilla.ledger.invariants import Invariant
from manilla.ledger.posting import INTERNAL, WITHHELD
from manilla.posting_kinds import PostingKind, kind_of

_BOOKED = """
    SELECT p.merchant_id, p.trx_id, sum(e.amount_minor) AS minor FROM entry e
      JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
     WHERE e.account = '{}' AND {} = '{}' GROUP BY p.merchant_id, p.trx_id"""


def _booked(account: str, kind: PostingKind) -> str:
    return _BOOKED.format(account, kind_of("p.kind"), kind)


SPLITS: tuple[Invariant, ...] = (
    Invariant(
        "internal_is_zero",
        "Nothing is between the owners and the receivers of payments: what one gives, another has.",
        f"""SELECT environment, currency, sum(amount_minor) AS sum FROM entry
            WHERE account = '{INTERNAL}'
            GROUP BY environment, currency HAVING sum(amount_minor) <> 0""",
    ),
    Invariant(
        "shares_are_booked",
        "Each receiver got its share, without what was returned. Held shares are withheld.",
        f"""SELECT merchant_id, trx_id, s.amount_minor, s.returned_minor, i.minor, w.minor AS held
             FROM split s
             FULL JOIN ({_booked(INTERNAL, PostingKind.SHARE)}) AS i USING (merchant_id, trx_id)
             LEFT JOIN ({_booked(WITHHELD, PostingKind.SHARE)}) AS w USING (merchant_id, trx_id)
            WHERE coalesce(s.amount_minor - s.returned_minor, 0) <> -coalesce(i.minor, 0)
               OR coalesce(s.withheld_minor, 0) <> coalesce(w.minor, 0)
               OR (s.withheld_minor <> 0) <> (s.status = 'held')
               OR (s.released_at IS NOT NULL AND s.withheld_minor <> 0)""",
    ),
    Invariant(
        "owners_pass_on_the_shares",
        "The owner of a payment gave its receivers their shares, and claims what they owe.",
        f"""SELECT merchant_id, trx_id, i.minor, w.minor AS claimed, s.kept, s.short
             FROM (SELECT owner_id AS merchant_id, payment_trx_id AS trx_id,
                          sum(amount_minor - returned_minor) AS kept, sum(short_minor) AS short
                     FROM split GROUP BY owner_id, payment_trx_id) AS s
             LEFT JOIN ({_booked(INTERNAL, PostingKind.SPLIT)}) AS i USING (merchant_id, trx_id)
             LEFT JOIN ({_booked(WITHHELD, PostingKind.SPLIT)}) AS w USING (merchant_id, trx_id)
             JOIN payment p USING (merchant_id, trx_id)
            WHERE s.kept <> coalesce(i.minor, 0) OR s.short <> coalesce(w.minor, 0)""",
    ),
    Invariant(
        "paid_payments_have_their_shares",
        "Each paid payment with a split has the shares that were planned, and no other has any.",
        """SELECT p.merchant_id, p.trx_id, p.status, s.shares, planned.shares AS planned
             FROM payment p
            CROSS JOIN LATERAL (
                  SELECT count(*) AS shares, coalesce(sum((each ->> 'minor')::bigint), 0) AS minor
                    FROM jsonb_array_elements(p.split -> 'shares') AS each
                   WHERE each -> 'minor' <> '0') AS planned
            CROSS JOIN LATERAL (
                  SELECT count(*) AS shares, coalesce(sum(amount_minor), 0) AS minor FROM split
                   WHERE owner_id = p.merchant_id AND payment_trx_id = p.trx_id) AS s
            WHERE p.split IS NOT NULL
              AND CASE WHEN p.status = 'success' THEN (s.shares, s.minor)
                       <> (planned.shares, planned.minor) ELSE s.shares <> 0 END""",
    ),
    Invariant(
        "open_shares_have_a_job",
        "Each share that is held until a time, and each short share, has a job that checks it.",
        f"""SELECT s.merchant_id, s.trx_id, s.status FROM split s
            WHERE ((s.status = 'held' AND s.hold_until IS NOT NULL) OR s.short_minor > 0)
              AND NOT EXISTS (
                  SELECT FROM job j
                   WHERE j.merchant_id = s.merchant_id AND j.subject = s.trx_id
                     AND j.kind = '{JobKind.SPLIT}')""",
    ),
)
