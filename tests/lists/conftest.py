from tests.payouts.conftest import sandbox_payer, simulator

__all__ = ["sandbox_payer", "simulator"]
