"""What is promised, and why it holds. Pure: no input or output, no clock, no randomness."""
