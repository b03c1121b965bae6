"""The demo shop of development mode shows the merchant's side of a real payment."""
