"""Tools without a payment word in them; they import nothing else of ours."""
