"""Language models and their prompts. Stands on the ground: errors, files and paths."""
