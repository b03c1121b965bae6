"""Whose rows a list may show. What a merchant sees is always of one merchant and environment."""

import msgspec

from manilla.kit.listing import Conditions
from manilla.ledger.posting import Environment


class Tenant(msgspec.Struct, frozen=True):
    """A merchant, in one environment."""

    merchant_id: int
    environment: Environment


class Everyone(msgspec.Struct, frozen=True):
    """For the platform's own people: all merchants, or one of them."""

    merchant_id: int | None = None
    environment: Environment | None = None


Scope = Tenant | Everyone


def whose(scope: Scope) -> Conditions:
    """By merchant, which every key begins with."""
    return Conditions().add_given("merchant_id = {}", scope.merchant_id)


def within(scope: Scope) -> Conditions:
    return whose(scope).add_given("environment = {}", scope.environment)
