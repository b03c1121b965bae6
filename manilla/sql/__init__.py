"""The database schema: migrations for tables, and functions that do much in one statement."""
