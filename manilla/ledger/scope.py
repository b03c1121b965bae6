"""Restricts which rows a list can show. A merchant sees only its own rows in one environment."""

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.listing import Conditions


class Tenant(msgspec.Struct, frozen=True):
    """A merchant in one environment."""

    merchant_id: int
    environment: Environment


class Everyone(msgspec.Struct, frozen=True):
    """A scope for administrators: all merchants or a single merchant."""

    merchant_id: int | None = None
    environment: Environment | None = None


Scope = Tenant | Everyone


def merchant_condition(scope: Scope) -> Conditions:
    """Adds a condition for the merchant id, which is the first column of every key."""
    return Conditions().add_given("merchant_id = {}", scope.merchant_id)


def scope_conditions(scope: Scope) -> Conditions:
    return merchant_condition(scope).add_given("environment = {}", scope.environment)


def collation_of(scope: Scope) -> str:
    """Returns the collation of `trx_id` in the index for this scope."""
    return ' COLLATE "C"' if scope.merchant_id is None else ""
