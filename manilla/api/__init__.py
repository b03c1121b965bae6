"""The merchants' API: one signed kernel that every endpoint goes through."""
