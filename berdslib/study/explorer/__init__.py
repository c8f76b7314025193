"""The explorer: two lists side by side, in JupyterLab, as a web app and as a file; see ``berdslib.explore``."""
