"""What merchants are told of their transactions."""
