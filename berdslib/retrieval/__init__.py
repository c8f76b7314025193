"""Retrievers and indexes, and what makes lists better: fusion, expansion, diversifying, projection."""
