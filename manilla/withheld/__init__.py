"""Money that is taken out of a wallet, and that is not decided yet."""
