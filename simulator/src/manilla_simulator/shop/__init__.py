"""The demo shop of development mode. It shows a payment from the merchant's side."""
