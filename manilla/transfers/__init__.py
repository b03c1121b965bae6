"""Money that leaves through a provider: what payouts and refunds have in common."""
