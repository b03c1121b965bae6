from tests.payouts.conftest import payer, sandbox_payer, simulator

__all__ = ["payer", "sandbox_payer", "simulator"]
