"""Payment links: pages that a merchant shares, on which customers start payments."""
