"""The database schema: migrations for tables, and SQL functions that save round trips."""
