"""Settlements: pays a merchant's balance to its own account, manually or by its plan."""
