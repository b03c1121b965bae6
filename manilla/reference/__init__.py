"""The documentation for merchants' developers at /docs, and the API explorer's backend."""
