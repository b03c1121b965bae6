"""Commands for providers: accounts, methods, banks and rails."""
