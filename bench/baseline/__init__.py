"""The baseline for comparison: code as a typical team writes it, with FastAPI and an ORM.

It runs one query per step.
"""
