"""Experiments, figures, published tables and notebook runs."""
