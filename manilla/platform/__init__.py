"""The settings of the whole installation. All processes detect changes to these settings."""
