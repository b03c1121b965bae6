"""Merchants: who they are, what opens their doors, and where their money is."""
