"""The merchant API: every endpoint goes through one kernel that authenticates and limits calls."""
