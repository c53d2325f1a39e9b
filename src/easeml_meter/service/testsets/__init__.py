"""Test sets: requests for labels, delivery, inputs, and release."""
