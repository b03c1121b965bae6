"""How a merchant protects its payouts: a second person, and payouts only to saved accounts."""
