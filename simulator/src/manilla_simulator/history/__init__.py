"""The demo history: a month of transactions for three merchants in development mode.

The transactions are created, oldest first, with the functions that the API, the checkout and the
worker use. Their ids are created with a clock that is moved into the past, and their timestamps
are changed afterwards.
"""
