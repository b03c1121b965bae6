"""Which rows a list may show. A merchant sees only its own rows in one environment."""

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.listing import Clock, Conditions
from manilla.ledger import trx_ids


class Tenant(msgspec.Struct, frozen=True):
    """A merchant in one environment."""

    merchant_id: int
    environment: Environment


class Everyone(msgspec.Struct, frozen=True):
    """All merchants or a single one, for administrators."""

    merchant_id: int | None = None
    environment: Environment | None = None


Scope = Tenant | Everyone


def whose(scope: Scope) -> Conditions:
    """Filters by merchant id, the first column of every key."""
    return Conditions().add_given("merchant_id = {}", scope.merchant_id)


def within(scope: Scope) -> Conditions:
    return whose(scope).add_given("environment = {}", scope.environment)


def clock_of(scope: Scope) -> Clock:
    """Returns the order of transactions whose index suits the scope."""
    return trx_ids.CLOCK_OF_ALL if scope.merchant_id is None else trx_ids.CLOCK
