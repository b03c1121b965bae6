"""The benchmark's own programs, each measured in a separate process."""

# The environment variable with the first merchant whose jobs the `disburse` worker counts.
COUNTED_FROM = "BENCH_COUNTED_FROM"

# The environment variable with a database URL whose statements are not counted.
UNCOUNTED_URL = "BENCH_UNCOUNTED_URL"
