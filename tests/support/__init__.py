"""Helpers of the tests: programs, clients, clocks, and databases."""
