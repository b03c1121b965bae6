"""What a typical team writes: FastAPI, an ORM, one query per step. Measured beside the product."""
