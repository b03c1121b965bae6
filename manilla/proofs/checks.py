"""The rules and lists of an auditor's pack, in addition to the invariants of the ledger.

The invariants find transactions without postings. The rules here find postings without a
transaction, and verify references, approvals and cover.
"""

from datetime import datetime

import msgspec

from manilla.audit.decided import SAVED_ACCOUNTS, SETTLEMENT_ACCOUNTS, DecidedRows
from manilla.bulk.store import PAYOUT_FILES
from manilla.ledger.invariants import Invariant
from manilla.platform import settings
from manilla.posting_kinds import (
    PostingKind,
    PostingSource,
    in_sql,
    kind_of,
    kinds_of,
    part_of,
)
from manilla.proofs.verify import NUMBERED_HERE
from manilla.transaction_types import TYPES


class Listing(msgspec.Struct, frozen=True):
    """Rows that an auditor reads. The rows are no findings."""

    name: str
    title: str
    query: str


# The audit action of each kind of an administrator's posting.
_ACTIONS = {kind: kind.audit_action for kind in kinds_of(PostingSource.ADMINISTRATOR)}
_ACTION = " ".join(f"WHEN '{kind}' THEN '{action}'" for kind, action in _ACTIONS.items())


def _exists(table: str, column: str) -> str:
    key = f"s.merchant_id = p.merchant_id AND s.{column} = p.trx_id"
    return f"EXISTS (SELECT FROM {table} s WHERE {key})"


# The condition that a posting's record exists, for each source.
_EXISTS: dict[str, str] = {
    **{each.name: _exists(each.table, each.column) for kind in TYPES for each in kind.ids},
    # The part of a paid debt is the kind of the credit, with a dot instead of the colon.
    PostingSource.CREDIT: f"""EXISTS (
                    SELECT FROM posting s
                     WHERE s.merchant_id = p.merchant_id AND s.trx_id = p.trx_id
                       AND replace(s.kind, ':', '.') = {part_of("p.kind")})""",
    PostingSource.CASE: _exists("operator_case", "reference"),
    PostingSource.ARCHIVE: f"""{part_of("p.kind")} <> '' AND p.id <= (
                    SELECT coalesce(max(m.last_id), 0) FROM archive_month m)""",
    # An audit entry records each posting of an administrator. If the posting arrived with its
    # merchant, the entry is in the cell that made it.
    PostingSource.ADMINISTRATOR: f"""p.environment <> 'production' OR EXISTS (
                    SELECT FROM audit s
                     WHERE s.action = CASE p.kind {_ACTION} END
                       AND s.detail ->> 'trx_id' = p.trx_id)
                    OR EXISTS (
                    SELECT FROM public.posting_chain a
                     WHERE a.merchant_id = p.merchant_id
                       AND p.id BETWEEN a.first_id AND a.last_id)""",
}


def _has_record() -> str:
    """Returns the condition that a posting's record exists. It is false for an unknown kind."""
    cases = []
    for source in PostingSource:
        kinds = in_sql(kinds_of(source))
        cases.append(f"WHEN {kind_of('p.kind')} IN {kinds} THEN {_EXISTS[source]}")
    return f"CASE {' '.join(cases)} ELSE false END"


COMPLETENESS: tuple[Invariant, ...] = (
    Invariant(
        "postings_have_their_transaction",
        "Each posting belongs to a payment, charge, payout, refund, dispute or case. If an "
        "administrator made the posting in production, it has an audit entry.",
        f"""
        SELECT p.merchant_id, p.id, p.kind, p.trx_id, p.posted_at FROM posting p
         WHERE NOT {_has_record()}""",
    ),
    Invariant(
        "arrivals_are_in_the_audit_log",
        "Each chain link that came with a moved merchant belongs to an audited move.",
        """
        SELECT c.number, c.merchant_id, c.first_id, c.last_id, c.postings, c.linked_at
          FROM posting_chain c
         WHERE c.merchant_id IS NOT NULL AND NOT EXISTS (
               SELECT FROM audit a
                WHERE a.action = 'cell.move.arrive' AND a.merchant_id = c.merchant_id
                  AND c.number BETWEEN (a.detail ->> 'first_link')::bigint
                                   AND (a.detail ->> 'last_link')::bigint)""",
    ),
    Invariant(
        "administrators_movements_were_posted",
        "Each audit entry of a funding, an adjustment or a provider settlement has its posting.",
        f"""
        SELECT a.id, a.action, a.subject, a.detail ->> 'trx_id' AS trx_id FROM audit a
         WHERE a.action IN ({", ".join(f"'{action}'" for action in _ACTIONS.values())})
           AND NOT EXISTS (SELECT FROM posting p
                            WHERE p.trx_id = a.detail ->> 'trx_id'
                              AND p.merchant_id = coalesce(a.merchant_id, 0))""",
    ),
    Invariant(
        "settlements_have_their_payout",
        "Each paid settlement has a completed payout of the same amount.",
        """
        SELECT s.merchant_id, s.id, s.amount_minor, s.trx_id, p.status, p.amount_minor AS paid_minor
          FROM settlement s
          LEFT JOIN payout p ON p.merchant_id = s.merchant_id AND p.trx_id = s.trx_id
         WHERE s.state = 'paid'
           AND (p.status, p.amount_minor) IS DISTINCT FROM ('completed', s.amount_minor)
           -- A provider can return a payout after the settlement was paid.
           AND NOT coalesce(p.is_reversed, false)""",
    ),
    Invariant(
        "clearing_movements_equal_their_entries",
        "Each movement that is compared with provider statements equals its ledger entry.",
        """
        SELECT m.merchant_id, m.posting_id, m.provider, m.trx_id, m.amount_minor,
               -e.amount_minor AS ledger_minor, m.booked_at, p.posted_at
          FROM clearing_movement m
          LEFT JOIN posting p ON p.merchant_id = m.merchant_id AND p.id = m.posting_id
          LEFT JOIN entry e ON e.merchant_id = m.merchant_id AND e.posting_id = m.posting_id
               AND e.account = 'clearing:' || m.provider
         WHERE (m.amount_minor, m.currency::text, m.booked_at)
               IS DISTINCT FROM (-e.amount_minor, e.currency::text, p.posted_at)""",
    ),
)


def _as_decided(name: str, promise: str, decided: DecidedRows, where: str = "true") -> Invariant:
    return Invariant(
        name,
        promise,
        f"""SELECT t.merchant_id, t.id FROM {decided.table} t
            WHERE {where} AND NOT {decided.is_unchanged}""",
    )


# The audit entries of people's decisions describe the rows.
DESTINATIONS: tuple[Invariant, ...] = (
    _as_decided(
        "settlement_accounts_are_as_set",
        "Each settlement account is the one that a user has set.",
        SETTLEMENT_ACCOUNTS,
    ),
    _as_decided(
        "saved_accounts_are_as_saved",
        "Each saved payout account is the one that a user has saved.",
        SAVED_ACCOUNTS,
    ),
    _as_decided(
        "payout_files_are_as_confirmed",
        "The rows of each confirmed payout file are the ones that a user has confirmed.",
        PAYOUT_FILES,
        "t.status NOT IN ('draft', 'refused')",
    ),
    Invariant(
        "webhook_endpoints_are_as_set",
        "Each webhook endpoint has the URL that a user has set.",
        """SELECT e.merchant_id, e.id, e.url, last.url AS set_url
             FROM webhook_endpoint e
            CROSS JOIN LATERAL (
                  SELECT a.id, a.detail ->> 'url' AS url FROM public.audit a
                   WHERE a.subject = 'endpoint:' || e.id AND a.merchant_id = e.merchant_id
                     AND a.detail ? 'url'
                   ORDER BY a.id DESC LIMIT 1) AS last
            WHERE e.url <> last.url AND e.deleted_at IS NULL
              -- Changes in another cell have their entries there.
              AND NOT EXISTS (SELECT FROM public.audit a
                               WHERE a.merchant_id = e.merchant_id
                                 AND a.action = 'cell.move.arrive' AND a.id > last.id)""",
    ),
)

# Links have the time of the worker's clock. Other times are those of the database's clock, which
# differs after a failover, and in the cell from which a merchant has arrived.
_CLOCKS_DIFFER = "interval '10 minutes'"

# Some rows excuse what would be a finding of another rule. These rules are about such rows. A name
# with a schema also has the rows of merchants that live in another cell.
EXCUSES: tuple[Invariant, ...] = (
    Invariant(
        "notifications_were_kept_for_90_days",
        "No notification was deleted before it was 90 days old.",
        f"""SELECT merchant_id, until FROM public.deleted_notifications
            WHERE until > now() - interval '90 days' + {_CLOCKS_DIFFER}""",
    ),
    Invariant(
        "payouts_have_digests_since_the_upgrade",
        "Payouts without a digest of their destination are older than the upgrade to the version "
        "that writes digests.",
        f"""SELECT first.since, first.id AS first_posting_with_digest, c.linked_at
             FROM (SELECT (SELECT since FROM destination_epoch) AS since, min(p.id) AS id
                     FROM posting p
                    WHERE p.kind = '{PostingKind.PAYOUT}' AND p.reason LIKE 'sha256:%'
                      AND {NUMBERED_HERE.format(row="p", id="id")}) AS first
             LEFT JOIN posting_chain c
                  ON first.id BETWEEN c.first_id AND c.last_id AND c.merchant_id IS NULL
            WHERE first.since IS NULL
               OR first.since > now() + interval '10 minutes' + {_CLOCKS_DIFFER}
               OR c.linked_at < first.since - interval '10 minutes' - {_CLOCKS_DIFFER}""",
    ),
    Invariant(
        "merchants_elsewhere_have_moved",
        "The audit log has the move of each merchant that lives in another cell.",
        """SELECT f.merchant_id, f.state, f.cell, f.since, last.action AS last_entry
             FROM public.merchant_fence f
             LEFT JOIN LATERAL (
                  SELECT a.action FROM public.audit a
                   WHERE a.merchant_id = f.merchant_id
                     AND (a.action IN ('cell.move.arrive', 'cell.move.depart')
                          OR (a.action = 'cell.move.begin' AND f.state = 'arriving'))
                   ORDER BY a.id DESC LIMIT 1) AS last ON true
            WHERE f.state IN ('left', 'partial', 'arriving')
              AND last.action IS DISTINCT FROM CASE f.state WHEN 'arriving' THEN 'cell.move.begin'
                                                            ELSE 'cell.move.depart' END""",
    ),
)
MERCHANTS_ELSEWHERE = Listing(
    "merchants_elsewhere",
    "Merchants that live in another cell. Their rows here are a copy, which no rule checks",
    "SELECT merchant_id, state, cell, since FROM merchant_fence WHERE lives_elsewhere(merchant_id)",
)

# All references under which a transfer was sent to a provider, or can be sent.
_REFERENCES = """
        SELECT merchant_id, trx_id, provider, coalesce(sent_reference, trx_id) AS reference
          FROM payout WHERE provider IS NOT NULL AND environment = 'production'
         UNION ALL
        SELECT merchant_id, trx_id, provider, coalesce(sent_reference, trx_id)
          FROM payout_attempt
         UNION ALL
        SELECT merchant_id, trx_id, provider, trx_id
          FROM refund WHERE provider IS NOT NULL AND environment = 'production'"""

TRANSFERS: tuple[Invariant, ...] = (
    Invariant(
        "transfer_references_are_unique",
        "No two transfers have the same reference, on any rail.",
        f"""
        WITH sent AS ({_REFERENCES}),
        shared AS (SELECT reference FROM sent GROUP BY reference
                   HAVING count(*) > 1 AND (min(trx_id), min(merchant_id))
                                           <> (max(trx_id), max(merchant_id)))
        SELECT reference, count(DISTINCT (merchant_id, trx_id)) AS transfers,
               array_agg(DISTINCT provider || ':' || trx_id) AS sent
          FROM sent JOIN shared USING (reference) GROUP BY reference""",
    ),
)
UNKNOWN_OUTCOMES = Listing(
    "transfers_with_unknown_outcome",
    "Transfers that were sent and have no final result yet",
    """
    SELECT 'payout' AS type, t.merchant_id, t.trx_id, t.provider,
           coalesce(t.sent_reference, t.trx_id) AS reference, t.currency::text, t.amount_minor,
           t.began_at AS sent_at, date_trunc('second', now() - t.began_at)::text AS age,
           EXISTS (SELECT FROM operator_case c
                    WHERE c.merchant_id = t.merchant_id AND c.trx_id = t.trx_id
                      AND c.status = 'open') AS has_open_case
      FROM payout t
     WHERE (t.status || '') = 'pending' AND t.began_at IS NOT NULL AND t.environment = 'production'
     UNION ALL
    SELECT 'refund', t.merchant_id, t.trx_id, t.provider, t.trx_id, t.currency::text,
           t.amount_minor, t.sent_at, date_trunc('second', now() - t.sent_at)::text,
           EXISTS (SELECT FROM operator_case c
                    WHERE c.merchant_id = t.merchant_id AND c.reference = t.trx_id
                      AND c.status = 'open')
      FROM refund t
     WHERE t.status = 'pending' AND t.sent_at IS NOT NULL AND t.environment = 'production'
     ORDER BY sent_at""",
)

PEOPLE = Listing(
    "people",
    "Users who had access, with their roles",
    """
    SELECT p.id, p.realm::text, p.email, p.name, p.status,
           coalesce(p.console_role, m.role) AS role, m.merchant_id, m.approves_from,
           p.totp_confirmed_at IS NOT NULL AS has_second_factor, p.created_at, p.last_login_at
      FROM person p LEFT JOIN membership m ON m.person_id = p.id
     ORDER BY p.id, m.merchant_id""",
)
API_KEYS = Listing(
    "api_keys",
    "API keys that had access, with their rights",
    """
    SELECT merchant_id, environment::text, 'main key ' || generation AS key,
           ARRAY['payments', 'payouts', 'refunds', 'read'] AS rights, '{}'::text[] AS networks,
           NULL AS created_by, created_at, expires_at, last_used_at, NULL::timestamptz AS revoked_at
      FROM credential
     UNION ALL
    SELECT merchant_id, environment::text, name, rights, networks, created_by, created_at,
           expires_at, last_used_at, revoked_at
      FROM api_key
     ORDER BY 1, 2, 3""",
)
DATABASE_ROLES = Listing(
    "database_roles",
    "Database roles that can write to the ledger",
    """
    SELECT rolname::text AS role, rolsuper AS is_superuser,
           has_table_privilege(oid, 'entry', 'INSERT') AS can_insert,
           has_table_privilege(oid, 'entry', 'UPDATE, DELETE, TRUNCATE') AS can_change,
           oid = (SELECT relowner FROM pg_class WHERE oid = 'entry'::regclass) AS is_owner
      FROM pg_roles
     WHERE has_table_privilege(oid, 'entry', 'INSERT, UPDATE, DELETE, TRUNCATE')
     ORDER BY rolname""",
)
APPROVALS = Listing(
    "approvals",
    "Changes that needed a second person, and who decided on them",
    """
    SELECT id, kind, subject, merchant_id, reason, status, asked_name, asked_at, decided_name,
           decided_at, decision
      FROM approval ORDER BY id""",
)
APPROVED_PAYOUTS = Listing(
    "approved_payouts",
    "Merchants' payouts that needed a second person, and who approved them",
    """
    SELECT merchant_id, id, kind, status, asked_by, asked_at, confirmed_by, confirmed_at, ended_by
      FROM payout_batch WHERE asked_by IS NOT NULL ORDER BY merchant_id, asked_at, id""",
)
ARRIVALS = Listing(
    "arrivals",
    "Merchants moved here from another cell, with the chain links of their postings",
    """
    SELECT id AS audit_id, at, merchant_id, detail ->> 'from_cell' AS from_cell,
           detail ->> 'move' AS move, detail ->> 'first_link' AS first_link,
           detail ->> 'last_link' AS last_link
      FROM audit WHERE action = 'cell.move.arrive' ORDER BY id""",
)
_DEFAULTS = ", ".join(
    "('{}', '{}')".format(name, settings.render(default).replace("'", "''"))
    for name, default in msgspec.structs.asdict(settings.PlatformSettings()).items()
)
DECISIONS: tuple[Invariant, ...] = (
    Invariant(
        "payouts_were_approved_by_a_second_person",
        "Nobody has approved their own payout, if the payout needed a second person.",
        """
        SELECT merchant_id, id, asked_by, confirmed_by FROM payout_batch
         WHERE status IN ('running', 'done') AND asked_by = confirmed_by""",
    ),
    Invariant(
        "approvals_were_given_by_a_second_person",
        "Nobody has approved their own request.",
        """
        SELECT id, kind, subject, asked_name, decided_name FROM approval
         WHERE status = 'approved'
           AND (asked_kind, asked_id, asked_name, asked_realm)
               IS NOT DISTINCT FROM (decided_kind, decided_id, decided_name, decided_realm)""",
    ),
    Invariant(
        "approvals_are_in_the_audit_log",
        "Each decision on a request has an audit entry by the same person.",
        """
        SELECT a.id, a.kind, a.subject, a.status, a.decided_name FROM approval a
         WHERE a.status IN ('approved', 'refused') AND NOT EXISTS (
               SELECT FROM audit l
                WHERE l.subject = 'approval:' || a.id AND l.actor_name = a.decided_name
                  AND l.action = CASE a.status WHEN 'approved' THEN 'approval.approve'
                                               ELSE 'approval.refuse' END)""",
    ),
    Invariant(
        "settings_are_in_the_audit_log",
        "Each platform setting has the value of its last audit entry, or its default.",
        f"""
        SELECT d.key, s.value, last.value AS value_in_audit_log, d.value AS default_value
          FROM (VALUES {_DEFAULTS}) AS d (key, value)
          LEFT JOIN setting s USING (key)
          LEFT JOIN LATERAL (
               SELECT a.detail #>> ARRAY['changed', d.key, 'after'] AS value FROM audit a
                WHERE a.action = 'setting.change' AND a.subject = 'setting:' || d.key
                ORDER BY a.id DESC LIMIT 1) AS last ON true
         WHERE coalesce(s.value, d.value) <> coalesce(last.value, d.value)""",
    ),
)


# The sum of the wallets now, and at an earlier time. The independent program verifies the first.
_WALLETS_NOW = """
        SELECT currency::text, sum(balance_minor) AS minor FROM wallet
         WHERE environment = 'production' GROUP BY currency"""
_WALLETS_AT = """
        SELECT e.currency::text, sum(e.amount_minor) AS minor
          FROM entry e
          JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
         WHERE e.account = 'wallet' AND e.environment = 'production' AND p.posted_at < {moment}
         GROUP BY e.currency"""


def cover(until: datetime, term_days: int, *, is_now: bool) -> tuple[Invariant, ...]:
    """Returns the rules about merchants' money and the providers' balances at this time."""
    moment = f"timestamptz '{until.isoformat()}'"
    wallets = _WALLETS_NOW if is_now else _WALLETS_AT.format(moment=moment)
    term = f"interval '{int(term_days)} days'"
    last_reports = f"""
        SELECT DISTINCT ON (provider, currency) provider, currency::text, balance_minor, reported_at
          FROM reported_balance WHERE reported_at <= {moment}
         ORDER BY provider, currency, reported_at DESC"""
    return (
        Invariant(
            "wallets_are_covered_by_providers",
            "The providers hold at least the sum of all production wallets, by their own reports.",
            f"""
        SELECT currency, owed.minor AS wallets_minor, coalesce(held.minor, 0) AS held_minor
          FROM ({wallets}) AS owed
          LEFT JOIN (SELECT currency, sum(balance_minor) AS minor FROM ({last_reports}) AS last
                      GROUP BY currency) AS held USING (currency)
         WHERE owed.minor > coalesce(held.minor, 0)""",
        ),
        Invariant(
            "reported_balances_are_within_the_term",
            "Each provider that holds money has reported its balance within the settlement term.",
            f"""
        SELECT booked.provider, booked.currency, booked.minor AS ledger_minor, last.reported_at
          FROM (SELECT substr(account, 10) AS provider, currency::text,
                       -sum(amount_minor) AS minor
                  FROM entry WHERE account LIKE 'clearing:%' AND environment = 'production'
                 GROUP BY 1, 2 HAVING sum(amount_minor) <> 0) AS booked
          LEFT JOIN ({last_reports}) AS last USING (provider, currency)
         WHERE last.reported_at IS NULL OR last.reported_at < {moment} - {term}""",
        ),
    )


_SUSPENSE = PostingKind.SUSPENSE, PostingKind.SUSPENSE_RELEASED


def terms(until: datetime, term_days: int) -> tuple[Invariant, ...]:
    """Returns the rules about open transactions at this time."""
    moment = f"timestamptz '{until.isoformat()}'"
    term = f"interval '{int(term_days)} days'"
    return (
        Invariant(
            "open_transfers_are_within_the_term",
            "No payout or refund is pending for longer than the settlement term.",
            f"""
        SELECT 'payout' AS type, merchant_id, trx_id, currency::text, amount_minor, created_at
          FROM payout WHERE (status || '') = 'pending' AND environment = 'production'
           AND created_at < {moment} - {term}
         UNION ALL
        SELECT 'refund', merchant_id, trx_id, currency::text, amount_minor, created_at
          FROM refund WHERE status = 'pending' AND environment = 'production'
           AND created_at < {moment} - {term}""",
        ),
        Invariant(
            "suspense_is_within_the_term",
            "No money is in suspense for longer than the settlement term.",
            f"""
        SELECT p.merchant_id, p.trx_id, e.currency::text, sum(e.amount_minor) AS minor,
               min(p.posted_at) AS since
          FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
               AND e.account = 'suspense'
         WHERE {kind_of("p.kind")} IN {in_sql(_SUSPENSE)}
           AND p.posted_at <= {moment}
         GROUP BY 1, 2, 3
        HAVING sum(e.amount_minor) <> 0 AND min(p.posted_at) < {moment} - {term}""",
        ),
    )


DAYS_WITHOUT_STATEMENT = Listing(
    "days_without_statement",
    "Days whose movements no imported statement explains, with the provider's reported balance",
    """
    SELECT moved.*, r.balance_minor AS reported_minor, r.ledger_minor AS ledger_when_reported_minor,
           r.balance_minor - r.ledger_minor AS difference_minor, r.reported_at
      FROM (SELECT substr(account, 10) AS provider, currency::text, day, count(*) AS movements,
                   -sum(amount_minor)::bigint AS moved_minor
              FROM (SELECT e.account, e.currency, e.amount_minor,
                           (p.posted_at AT TIME ZONE 'Africa/Lagos')::date AS day
                      FROM entry e
                      JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
                     WHERE e.account LIKE 'clearing:%' AND e.environment = 'production'
                       AND p.trx_id <> 'carried_forward'
                    -- With OFFSET, the planner expects few days, and adds up without sorting.
                    OFFSET 0) AS movement
             GROUP BY account, currency, day) AS moved
      LEFT JOIN reported_balance r ON r.provider = moved.provider
           AND r.currency::text = moved.currency AND r.day = moved.day
     WHERE NOT EXISTS (SELECT FROM statement_day d
                        WHERE d.provider = moved.provider AND d.day = moved.day
                          AND d.currency::text = moved.currency)
     ORDER BY moved.day, moved.provider""",
)
CLEARING_DIFFERENCES = Invariant(
    "provider_balances_equal_the_ledger",
    "No provider's reported balance has a difference that open transactions do not explain.",
    """
    SELECT provider, currency::text, minor AS unexplained_minor, since,
           date_trunc('second', now() - since)::text AS age
      FROM clearing_difference
     WHERE minor <> 0 AND since < now() - interval '3 minutes'""",
)
