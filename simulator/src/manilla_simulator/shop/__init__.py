"""The demonstration's shop, in development mode: a merchant's side of a real payment."""
