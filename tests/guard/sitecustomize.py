"""Every Python that a test starts imports this, as tests/conftest.py puts the folder on PYTHONPATH."""

import only_this_machine  # noqa: F401 - what it does is done when it is imported
