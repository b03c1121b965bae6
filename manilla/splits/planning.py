"""Divides a new payment by the rule in the request, or by one of the merchant's own rules."""

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import MerchantStatus
from manilla.splits import rule, store
from manilla.splits.rule import OWNER, ReceiverTerms, SplitInvalid, SplitTerms
from manilla.splits.share import Division, PlannedShare
from manilla.splits.store import PossibleReceiver, StoredRule

# The split of a payment or payment link: the id of a rule, or the rule itself.
GivenSplit = str | SplitTerms


async def plan(
    db: Database | Connection, tenant: Tenant, given: GivenSplit, amount: Money, remaining: Money
) -> Division:
    """Divides what remains of a payment's amount, if all receivers can get their shares now."""
    stored = await find(db, tenant, given) if isinstance(given, str) else None
    terms = given if isinstance(given, SplitTerms) else stored.decoded if stored else None
    assert terms is not None
    await check_receivers(db, tenant, terms, amount.currency)
    shares = rule.divide(terms, amount, remaining)
    numbers = {each.name: each.number for each in terms.receivers}
    return Division(
        id=stored.id if stored else None,
        version=stored.version if stored else None,
        owner_minor=shares.pop(OWNER),
        rest=str(terms.rest),
        refunds=terms.refunds,
        disputes=str(terms.disputes),
        hold=terms.hold,
        shares=[
            PlannedShare(name, numbers[name], trx_ids.new(numbers[name]), minor)
            for name, minor in shares.items()
        ],
    )


async def check_given(
    db: Database | Connection, tenant: Tenant, given: GivenSplit, currency: str
) -> str:
    """Returns the split of a new payment link as JSON, if its payments could be divided now."""
    terms = given if isinstance(given, SplitTerms) else (await find(db, tenant, given)).decoded
    await check_receivers(db, tenant, terms, currency)
    return msgspec.json.encode(given).decode()


def decode_given(text: str) -> GivenSplit:
    return msgspec.json.decode(text, type=str | SplitTerms)


def given_id(text: str) -> str | None:
    """Returns the id of the rule that was given, or None if the rule itself was."""
    given = decode_given(text)
    return given if isinstance(given, str) else None


async def find(db: Database | Connection, tenant: Tenant, rule_id: str) -> StoredRule:
    found = await store.rule(db, tenant, rule_id)
    if found is None:
        raise SplitInvalid.at("split", f"There is no split {rule_id}.")
    if found.status != "active":
        raise SplitInvalid.at("split", f"The split {rule_id} is disabled.")
    return found


async def check_receivers(
    db: Database | Connection, tenant: Tenant, terms: SplitTerms, currency: str | None = None
) -> None:
    """Raises SplitInvalid unless each receiver consents, and can get money in this currency."""
    rule.check(terms, tenant.merchant_id)
    known = await store.candidates(db, tenant, [each.number for each in terms.receivers])
    errors = {}
    for place, each in enumerate(terms.receivers):
        problem = _problem(each, known.get(each.number), tenant.environment, currency)
        if problem is not None:
            errors[f"receivers.{place}"] = problem
    if errors:
        raise SplitInvalid(errors=errors)


def _problem(
    terms: ReceiverTerms,
    found: PossibleReceiver | None,
    environment: Environment,
    currency: str | None,
) -> str | None:
    if terms.sub_account is not None and (found is None or not found.is_sub_account):
        return "You have no such sub-account."
    if found is None or not (found.is_sub_account or found.has_accepted):
        return "This merchant has not accepted an invitation to receive shares of your payments."
    if found.lives_elsewhere:
        return "This merchant is in another cell, so it cannot receive shares here."
    is_live = found.status == MerchantStatus.APPROVED or (
        environment is Environment.SANDBOX and found.status == MerchantStatus.PENDING
    )
    if not is_live:
        return "This merchant cannot receive money: it is not approved."
    if currency is not None and currency not in found.currencies:
        return f"This merchant has no active wallet in {currency}."
    return None


def encode(division: Division) -> str:
    return msgspec.json.encode(division).decode()
