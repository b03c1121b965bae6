"""The merchants' documentation at /docs, and the workbench on which a call is tried out."""
