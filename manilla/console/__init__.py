"""The administrators' pages: merchants, providers, queues, the platform and its people."""
