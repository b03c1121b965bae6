"""People: who they are, how they are let in, and what they may do there."""
