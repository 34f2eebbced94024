"""Dashes, small work without a plan: made, committed round by round, joined or released."""
