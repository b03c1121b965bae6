"""The demo history: a month of transactions for three merchants in development mode.

The history calls the same functions as the API, the checkout and the worker, oldest transaction
first. A moved clock creates ids with times in the past, and the timestamps are moved afterwards.
"""
