"""The explorer: two lists side by side, in JupyterLab, as a web app and as a file; see ``berdslib.explore``."""

from pathlib import Path

HERE = ("127.0.0.1", "localhost", "::1")  # addresses that no other machine reaches
APP_SETTINGS = "BERDS_APP"  # the variable by which the app's notebook gets them
STATIC = Path(__file__).with_name("static")
