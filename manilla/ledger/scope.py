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
    # Leaves out merchants of which this cell only has a copy, because they live in another cell.
    omits_copies: bool = False


# A case can have no merchant.
_OMIT_COPIES = """
    (merchant_id IS NULL OR merchant_id <> ALL (ARRAY(
        SELECT merchant_id FROM merchant_fence WHERE lives_elsewhere(merchant_id))))"""

Scope = Tenant | Everyone


def merchant_condition(scope: Scope) -> Conditions:
    """Adds a condition for the merchant id, which is the first column of every key."""
    conditions = Conditions().add_given("merchant_id = {}", scope.merchant_id)
    omits_copies = isinstance(scope, Everyone) and scope.omits_copies
    return conditions.add(_OMIT_COPIES) if omits_copies else conditions


def scope_conditions(scope: Scope) -> Conditions:
    return merchant_condition(scope).add_given("environment = {}", scope.environment)


def collation_of(scope: Scope) -> str:
    """Returns the collation of `trx_id` in the index for this scope."""
    return ' COLLATE "C"' if scope.merchant_id is None else ""
