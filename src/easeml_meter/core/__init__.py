"""The meter's rules, still pure: no I/O, no clock, no randomness."""
