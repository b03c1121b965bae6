"""Benchmarks of Manilla. The results are ratios measured within one run; see README.md."""
