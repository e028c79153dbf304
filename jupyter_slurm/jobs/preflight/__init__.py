"""Previews and checks of a job before its submission: limits, cost and expected start."""
