"""Customers of merchants, and the permanent account numbers to which they transfer money."""
