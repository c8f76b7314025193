"""The explorer: two lists side by side, in JupyterLab, as a web app and as a file; see ``berdslib.explore``."""

from pathlib import Path

HERE = ("127.0.0.1", "localhost", "::1")  # addresses that other machines cannot reach
APP_SETTINGS = "BERDS_APP"  # environment variable with the settings of the app's notebook
STATIC = Path(__file__).with_name("static")
