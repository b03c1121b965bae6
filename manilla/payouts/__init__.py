"""Pay-out: from a merchant's wallet to a beneficiary's bank."""
