"""The documentation for merchants' developers at /docs, and the explorer's backend."""
