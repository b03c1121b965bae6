"""Moves a merchant to another cell, in stored steps that can be continued or taken back."""
