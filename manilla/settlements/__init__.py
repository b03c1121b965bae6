"""Settlements: pays a merchant's balance to the merchant's own account, manually or by a plan."""
