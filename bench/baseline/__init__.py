"""The baseline for comparison: what a typical team writes, with FastAPI, an ORM and one query per
step.
"""
