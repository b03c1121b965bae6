from tests.payments.conftest import production, shop
from tests.payouts.conftest import desk, world

__all__ = ["desk", "production", "shop", "world"]
