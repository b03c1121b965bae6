"""What dashboard and console share: visits, forms, lists, their look, the account pages."""
