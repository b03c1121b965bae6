"""Writes emails in the transaction of the event that they report. A job sends them later.

An outbox row is one event for one recipient. It stores facts, which are the template's values,
instead of the text. A path with a token is encrypted. When the email is sent, facts and path are
deleted.
"""

from collections.abc import Mapping

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection
from manilla.kit.display import clean
from manilla.mail.kinds import RULES, Audience, MailKind, MailRule

FACT_LENGTH_MAX = 300
# Maximum number of waiting emails of one kind per person; additional emails are dropped.
WAITING_MAX = 100


def job_kind(rule: MailRule) -> JobKind:
    """Returns the queue for an email. Emails to customers must not delay other emails."""
    return JobKind.RECEIPT_MAIL if rule.audience is Audience.CUSTOMER else JobKind.MAIL


async def put(
    connection: Connection,
    kind: MailKind,
    facts: Mapping[str, str],
    *,
    path: str,
    merchant_id: int = 0,
    person_id: int | None = None,
    address: str | None = None,
    except_person: int | None = None,
) -> list[int]:
    """Queues an email for all recipients of its kind who have not switched the kind off.

    `path` is the page that the email links to. A kind for one user needs `person_id`, and a kind
    for an address needs `address`. `except_person` gets no email. The fact `merchant` defaults to
    the merchant's name. Returns the ids of the emails.
    """
    rule = RULES[kind]
    if merchant_id and "merchant" in rule.facts - set(facts):
        facts = {**facts, "merchant": await _merchant_name(connection, merchant_id)}
    assert set(facts) == rule.facts, f"{kind} needs exactly these facts: {sorted(rule.facts)}"
    assert (rule.audience is Audience.PERSON) == (person_id is not None)
    assert (rule.audience in (Audience.ADDRESS, Audience.CUSTOMER)) == (address is not None)
    shown = {name: " ".join(clean(text, FACT_LENGTH_MAX).split()) for name, text in facts.items()}
    selection = {
        Audience.PERSON: (person_id,),
        Audience.MERCHANT: (sorted(rule.roles), except_person),
        Audience.CONSOLE: (sorted(rule.roles), except_person),
    }.get(rule.audience, (address,))
    records = await connection.records(
        f"""
        INSERT INTO mail (merchant_id, kind, facts, path, person_id, recipient)
        SELECT $1, $2, $3::jsonb, $4, person_id, recipient
          FROM ({_RECIPIENTS[rule.audience]}) AS audience
         WHERE coalesce((SELECT c.is_on FROM mail_choice c
                          WHERE c.merchant_id = audience.chosen_with
                            AND c.holder = audience.holder AND c.kind = $2), $5)
           AND NOT {_IS_FLOODED if rule.gathered_for else "false"}
         ORDER BY person_id
        RETURNING id""",
        *(merchant_id, kind, msgspec.json.encode(shown).decode(), path, rule.is_on),
        *selection,
    )
    ids = [record["id"] for record in records]
    for mail_id in ids:
        await jobs.put(connection, merchant_id, job_kind(rule), str(mail_id))
    return ids


async def put_secret(
    connection: Connection,
    keyring: Keyring,
    kind: MailKind,
    facts: Mapping[str, str],
    *,
    path: str,
    merchant_id: int = 0,
    person_id: int | None = None,
    address: str | None = None,
) -> None:
    """Queues an email like `put`, with a path that contains a token and is stored encrypted."""
    about = {"merchant_id": merchant_id, "person_id": person_id, "address": address}
    for mail_id in await put(connection, kind, facts, path="", **about):  # type: ignore[arg-type]
        row = {"merchant_id": merchant_id, "id": mail_id}
        await connection.execute(
            "UPDATE mail SET sealed = $3 WHERE merchant_id = $1 AND id = $2",
            *(merchant_id, mail_id, keyring.seal(path.encode(), context(row))),
        )


async def _merchant_name(connection: Connection, merchant_id: int) -> str:
    return str(await connection.value("SELECT name FROM merchant WHERE id = $1", merchant_id))


def context(row: Mapping[str, int]) -> str:
    return f"mail:{row['merchant_id']}:{row['id']}"


SEALED = SealedColumn("mail", "sealed", ("merchant_id", "id"), context)

# Whether the person's latest WAITING_MAX emails of this kind are all still waiting.
_IS_FLOODED = f"""(
    SELECT count(*) = {WAITING_MAX} AND bool_and(state = 'waiting')
      FROM (SELECT m.state FROM mail m
             WHERE m.merchant_id = $1 AND m.person_id = audience.person_id AND m.kind = $2
             ORDER BY m.id DESC LIMIT {WAITING_MAX}) AS newest)"""

# SQL that selects each audience's recipients, and the key of each recipient's email preferences.
_PERSON = "SELECT p.id AS person_id, p.email AS recipient, 'person:' || p.id AS holder"
_PERSON += ", 0::bigint AS chosen_with"
_ADDRESS = "SELECT NULL::bigint AS person_id, $6::text AS recipient, lower($6::text) AS holder"
_ADDRESS += ", $1::bigint AS chosen_with"
_RECIPIENTS = {
    Audience.ADDRESS: _ADDRESS,
    Audience.CUSTOMER: _ADDRESS,
    Audience.PERSON: f"{_PERSON} FROM person p WHERE p.id = $6 AND p.status = 'active'",
    Audience.MERCHANT: f"""{_PERSON} FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1 AND m.role = ANY ($6::text[]) AND p.status = 'active'
           AND p.id IS DISTINCT FROM $7::bigint""",
    Audience.CONSOLE: f"""{_PERSON} FROM person p
         WHERE p.realm = 'console' AND p.console_role = ANY ($6::text[]) AND p.status = 'active'
           AND p.password_hash IS NOT NULL AND p.id IS DISTINCT FROM $7::bigint""",
}
