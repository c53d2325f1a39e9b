"""Submissions: kinds, measuring, answering, keeping, and the queue of models."""
