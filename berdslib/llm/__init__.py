"""Prompts for language models. Stands on the ground: imports nothing of ours but errors and paths."""
