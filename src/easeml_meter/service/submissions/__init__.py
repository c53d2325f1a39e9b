"""Submissions: kinds, measuring, running, deciding, answering, keeping, and the queue of models."""
