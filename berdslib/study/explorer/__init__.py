"""The explorer: two lists side by side, in JupyterLab, as a web app and as a file; see ``berdslib.explore``."""

HERE = ("127.0.0.1", "localhost", "::1")  # addresses that no other machine reaches
