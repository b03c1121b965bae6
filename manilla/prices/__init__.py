"""Price plans and taxes: what a transaction costs, computed from dated data."""
