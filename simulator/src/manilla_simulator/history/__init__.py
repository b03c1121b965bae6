"""The demo history: a month of transactions for three merchants, created by the platform's code.

The functions that API, checkout and worker call create and process the transactions now, oldest
first. A moved clock creates the ids, and the timestamps are moved afterwards. The history exists
only in development mode.
"""
