"""Retrievers, encoders and indexes."""
