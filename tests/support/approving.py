"""Applies changes or requests approval for them, in the same way as the pages."""

from manilla.approvals.approvals import Approvals
from manilla.services import Services


def approvals_of(services: Services) -> Approvals:
    return Approvals(services.db, services.keyring, is_production_mode=not services.is_development)
