"""The demo's history: a month of transactions of three merchants, made by the platform's own code.

The transactions are created and processed now, oldest first, by the functions that API, checkout
and worker call. Their ids are made with a moved clock, and their timestamps are moved afterwards.
Development mode only.
"""
