"""The schema: migrations for what is stored, functions for what must happen in one statement."""
