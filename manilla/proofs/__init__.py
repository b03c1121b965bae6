"""The books proved: every room's invariants at once, every hour and when somebody asks."""
