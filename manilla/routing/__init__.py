"""Chooses the rail that sends a payout, and counts how rails deliver."""
