"""What a typical team writes: FastAPI, the ORM, one query a step. Measured beside the product."""
