"""Payout protection: approval by a second person, and payouts only to saved accounts."""
