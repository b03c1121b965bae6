"""How an administrator resolves a case, with the money that it is about."""
