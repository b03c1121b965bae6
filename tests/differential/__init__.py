"""Compares what two versions store after the same random events.

`python -m tests.differential --base COMMIT --events 100000` plays the same stories of payments,
payouts and refunds in another version and in this one, and prints the rows that differ.
"""
