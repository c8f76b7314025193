"""Language models and their prompts. Depends only on errors, files, paths and progress."""
