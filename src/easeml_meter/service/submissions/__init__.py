"""Submissions: kinds, measuring, deciding, answering, keeping, and the queue of models."""
