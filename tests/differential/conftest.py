from tests.payouts.conftest import simulator
from tests.payouts.test_model import stage

__all__ = ["simulator", "stage"]
