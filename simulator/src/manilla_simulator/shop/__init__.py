"""The demo shop of development mode: the merchant's side of a real payment."""
