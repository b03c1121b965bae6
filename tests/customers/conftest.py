from tests.payments.conftest import production, sandbox, sandbox_shop, shop, simulator

__all__ = ["production", "sandbox", "sandbox_shop", "shop", "simulator"]
