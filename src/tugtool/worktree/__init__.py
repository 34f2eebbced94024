"""Linked worktrees of plans: made, listed, brought up to date, removed."""
