"""berdslib: which perspectives does a retriever show, and which does it hide?

The package is a thin helper under the notebooks in ``notebooks/``. Importing it loads nothing heavy; import what you
need from its parts: ``berdslib.data``, ``.llm``, ``.models``, ``.retrieval``, ``.judging``, ``.evaluation`` and
``.study``.
"""

__version__ = "0.1.0"
