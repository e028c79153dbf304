"""Previews and checks of a job before its submission, with limits, cost and expected start."""
