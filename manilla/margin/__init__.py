"""Margin: what merchants were charged, what providers took, and what is left.

- `totals.add_final_postings`: the worker adds each final posting to the totals of its day.
- `figures.rows`, `figures.days` with a `MarginFilter`: the totals by day, way to pay, provider or
  merchant. `figures.count_losing_ways`: what the alert counts.
- `transactions.pages`: single transactions with their prices and the providers' fees.
"""
