"""Pay-in: from a merchant's request to money in its wallet, and back again."""
