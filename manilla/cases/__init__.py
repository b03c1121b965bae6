"""What a person must look at: contradictions, and money that nobody is owed yet."""
