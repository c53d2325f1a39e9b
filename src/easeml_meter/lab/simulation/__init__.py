"""Simulated developers, honest and hostile, against the meter's real rules."""
