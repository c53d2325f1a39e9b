"""The lab: the paper's evaluation redrawn, and the promise attacked by simulated developers."""
