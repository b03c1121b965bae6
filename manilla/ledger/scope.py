"""Restricts which rows a list may show. A merchant sees only its own rows in one environment."""

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.listing import Conditions


class Tenant(msgspec.Struct, frozen=True):
    """A merchant in one environment."""

    merchant_id: int
    environment: Environment


class Everyone(msgspec.Struct, frozen=True):
    """All merchants or a single merchant, for administrators."""

    merchant_id: int | None = None
    environment: Environment | None = None


Scope = Tenant | Everyone


def merchant_condition(scope: Scope) -> Conditions:
    """Filters by merchant id, the first column of every key."""
    return Conditions().add_given("merchant_id = {}", scope.merchant_id)


def scope_conditions(scope: Scope) -> Conditions:
    return merchant_condition(scope).add_given("environment = {}", scope.environment)


def collation_of(scope: Scope) -> str:
    """Returns the collation of `trx_id` in the index for this scope."""
    return ' COLLATE "C"' if scope.merchant_id is None else ""
