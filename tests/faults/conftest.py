from tests.payouts.conftest import desk, world

__all__ = ["desk", "world"]
