"""Whose rows a list may show. Merchants only see one merchant in one environment: their own."""

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.listing import Conditions


class Tenant(msgspec.Struct, frozen=True):
    """A merchant in one environment."""

    merchant_id: int
    environment: Environment


class Everyone(msgspec.Struct, frozen=True):
    """For administrators: all merchants, or a single one."""

    merchant_id: int | None = None
    environment: Environment | None = None


Scope = Tenant | Everyone


def whose(scope: Scope) -> Conditions:
    """Filters by merchant, the first column of every key."""
    return Conditions().add_given("merchant_id = {}", scope.merchant_id)


def within(scope: Scope) -> Conditions:
    return whose(scope).add_given("environment = {}", scope.environment)
