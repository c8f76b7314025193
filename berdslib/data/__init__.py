"""Records, files and data sets."""
