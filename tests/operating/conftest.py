from tests.payments.conftest import production, shop
from tests.payouts.conftest import payer, simulator

__all__ = ["payer", "production", "shop", "simulator"]
