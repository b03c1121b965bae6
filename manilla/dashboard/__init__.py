"""The merchants' own pages: what they have, what happened, and how it is set up."""
