"""The ledger's statements."""

from collections.abc import Sequence

import msgspec

from manilla.kit.db import Connection, Database
from manilla.ledger.posting import Outcome, Posted, Posting


class _Row(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    balance_minor: int | None


# One statement for any number of merchants: each merchant's items go to its own call of the
# function, in merchant order, so that all statements take their locks in the same order.
POST = """
    SELECT done.item, done.outcome, done.balance_minor
      FROM (SELECT merchant_id,
                   array_agg(item ORDER BY item) AS items,
                   array_agg(trx_id ORDER BY item) AS trx_ids,
                   array_agg(kind ORDER BY item) AS kinds,
                   array_agg(environment ORDER BY item) AS environments,
                   array_agg(currency ORDER BY item) AS currencies,
                   array_agg(reason ORDER BY item) AS reasons,
                   array_agg(wallet_minor ORDER BY item) AS wallet_minors,
                   array_agg(first_account ORDER BY item) AS first_accounts,
                   array_agg(first_minor ORDER BY item) AS first_minors,
                   array_agg(second_account ORDER BY item) AS second_accounts,
                   array_agg(second_minor ORDER BY item) AS second_minors
              FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                          $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::bigint[])
                   WITH ORDINALITY
                   AS given (merchant_id, trx_id, kind, environment, currency, reason,
                             wallet_minor, first_account, first_minor,
                             second_account, second_minor, item)
             GROUP BY merchant_id ORDER BY merchant_id) AS m
     CROSS JOIN LATERAL ledger_post(
           m.merchant_id, m.items::integer[], m.trx_ids, m.kinds, m.environments, m.currencies,
           m.reasons, m.wallet_minors, m.first_accounts, m.first_minors,
           m.second_accounts, m.second_minors) AS done"""


async def post(db: Database | Connection, postings: Sequence[Posting]) -> list[Posted]:
    """Posts all of them in one statement; the result of each stands at its place."""
    rows = await db.rows(
        _Row,
        POST,
        [posting.merchant_id for posting in postings],
        [posting.trx_id for posting in postings],
        [posting.kind for posting in postings],
        [posting.environment.value for posting in postings],
        [posting.wallet.currency for posting in postings],
        [posting.reason for posting in postings],
        [posting.wallet.minor for posting in postings],
        [posting.first.account for posting in postings],
        [posting.first.minor for posting in postings],
        [posting.second.account if posting.second else None for posting in postings],
        [posting.second.minor if posting.second else None for posting in postings],
    )
    rows.sort(key=lambda row: row.item)
    assert len(rows) == len(postings)
    return [Posted(Outcome(row.outcome), row.balance_minor) for row in rows]
