"""Notebook material as text for a model; pure functions."""
