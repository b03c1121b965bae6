from tests.payments.conftest import production, shop
from tests.payouts.conftest import sandbox_payer, simulator

__all__ = ["production", "sandbox_payer", "shop", "simulator"]
