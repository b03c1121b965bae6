"""The programs of one instance: the embedded PostgreSQL server and the supervisor of them all."""
