"""Chooses the rail that sends a payout, and counts each rail's deliveries and failures."""
