"""Copies the movements of a clearing account from the ledger, to match them with statements."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from manilla.kit.database.connections import Connection
from manilla.ledger import posting
from manilla.posting_kinds import PostingKind, kind_of
from manilla.providers.port import LineKind
from manilla.reconciliation.lines import TRX_ID_LENGTH

# The movement of each kind of posting that changes a provider's clearing account.
LINE_KINDS: Mapping[PostingKind, LineKind] = {
    kind: LineKind(kind.statement_line) for kind in PostingKind if kind.statement_line is not None
}

# Recent postings are copied again, because a posting may commit later than its timestamp.
OVERLAP = timedelta(hours=1)

# The times of the first and the last copied movement. The subquery names the currency, so that an
# index finds both times without reading all movements of the provider. $1: the provider.
_COPIED = """
    SELECT min(m.first) AS first, max(m.last) AS last
      FROM (SELECT DISTINCT currency FROM statement_day WHERE provider = $1) AS c
     CROSS JOIN LATERAL (
           SELECT min(booked_at) AS first, max(booked_at) AS last FROM clearing_movement
            WHERE provider = $1 AND currency = c.currency) AS m"""
# Copies the movements, and returns a posting of an unknown kind. $1: the provider; $2: its clearing
# account; $3: the earliest time; $4: the maximum length of an id; $5: the kinds of movements to
# copy; $6, $7: the known kinds of postings, and of their movements.
_COPY = f"""
    WITH moved AS (
        SELECT p.merchant_id, p.id, e.currency, p.posted_at, -e.amount_minor AS amount_minor,
               left(coalesce(c.trx_id, d.payment_trx_id, p.trx_id), $4) AS trx_id,
               p.kind AS posting_kind, known.line_kind
          FROM posting p
         CROSS JOIN LATERAL (  -- never all entries of earlier postings
               SELECT currency, amount_minor FROM entry
                WHERE merchant_id = p.merchant_id AND posting_id = p.id AND account = $2
               OFFSET 0) AS e
          LEFT JOIN unnest($6::text[], $7::text[]) AS known (kind, line_kind)
            ON known.kind = {kind_of("p.kind")}
          LEFT JOIN payment c
            ON p.kind = '{PostingKind.COMMISSION}' AND c.merchant_id = p.merchant_id
           AND c.commission_trx_id = p.trx_id
          LEFT JOIN dispute d  -- statements name the disputed charge
            ON known.line_kind = '{LineKind.DISPUTE}' AND d.merchant_id = p.merchant_id
           AND d.trx_id = p.trx_id
         WHERE p.posted_at >= $3 AND p.environment = 'production'
           AND p.trx_id <> 'carried_forward'
           -- Movements of postings that arrived with a merchant are in the cell they are from.
           AND NOT EXISTS (SELECT FROM merchant_fence f
                            WHERE f.merchant_id = p.merchant_id
                              AND f.state IN ('arriving', 'partial') AND p.id > f.after_id)
           AND NOT EXISTS (SELECT FROM posting_chain a
                            WHERE a.merchant_id = p.merchant_id
                              AND p.id BETWEEN a.first_id AND a.last_id)),
    copied AS (
        INSERT INTO clearing_movement
               (merchant_id, posting_id, provider, currency, trx_id, kind, booked_at,
                amount_minor)
        SELECT merchant_id, id, $1, currency, trx_id, line_kind, posted_at, amount_minor
          FROM moved
         WHERE line_kind = ANY ($5::text[])
            ON CONFLICT DO NOTHING
        RETURNING trx_id),
    compared AS (
        INSERT INTO unmatched_transaction (provider, trx_id)
        SELECT DISTINCT $1, trx_id FROM copied
            ON CONFLICT DO NOTHING)
    SELECT merchant_id, id, posting_kind FROM moved WHERE line_kind IS NULL LIMIT 1"""


class UnknownMovement(Exception):
    """A posting in a clearing account has a kind that reconciliation does not know."""


async def copy(
    connection: Connection, provider: str, since: datetime, kinds: Iterable[str]
) -> None:
    """Copies ledger movements of these kinds since this time. Skips movements already copied.

    Raises UnknownMovement and copies nothing if it finds a posting whose kind it does not know.
    """
    copied = await connection.record(_COPIED, provider)
    is_known = copied["first"] is not None and copied["first"] <= since
    start = max(since, copied["last"] - OVERLAP) if is_known else since
    unknown = await connection.record(
        _COPY,
        *(provider, posting.clearing(provider), start, TRX_ID_LENGTH, list(kinds)),
        *(list(LINE_KINDS), list(LINE_KINDS.values())),
    )
    if unknown is not None:
        raise UnknownMovement(
            f"The posting {unknown['id']} of merchant {unknown['merchant_id']} in the account"
            f" {posting.clearing(provider)} has the unknown kind {unknown['posting_kind']}."
        )
