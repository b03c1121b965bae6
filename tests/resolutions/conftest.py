from tests.payouts.conftest import payer, simulator

__all__ = ["payer", "simulator"]
