"""Croissant 1.0, MLCommons' description of a data set in JSON-LD, for tables in Parquet files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berdslib.files import write_text

# The terms of the published context, https://github.com/mlcommons/croissant/tree/main/datasets/1.0.
_TERMS = (
    "citeAs column conformsTo dataType equivalentProperty examples extract field fileProperty fileObject fileSet "
    "format includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform data"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}
_TYPES = {"int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean"}  # of Arrow; others are text


def write_croissant(folder: Path, name: str, about: str, tables: Mapping[str, Path]) -> None:
    """Write FOLDER/croissant.json, which describes the tables: name → Parquet file in the folder."""
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": about,
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "distribution": [_file(folder, path) for path in tables.values()],
        "recordSet": [_records(folder, table, path) for table, path in tables.items()],
    }
    with write_text(folder / "croissant.json") as file:
        json.dump(described, file, ensure_ascii=False, indent=1)


def _file(folder: Path, path: Path) -> dict[str, Any]:
    place = path.relative_to(folder).as_posix()
    return {
        "@type": "cr:FileObject",
        "@id": place,
        "name": place,
        "contentUrl": place,
        "encodingFormat": "application/x-parquet",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _records(folder: Path, table: str, path: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = []
    for column in pq.read_schema(path):
        is_list = pa.types.is_list(column.type)
        kind = str(column.type.value_type if is_list else column.type)
        field = {
            "@type": "cr:Field",
            "@id": f"{table}/{column.name}",
            "name": column.name,
            "dataType": _TYPES.get(kind, "sc:Text"),
            "source": {
                "fileObject": {"@id": path.relative_to(folder).as_posix()},
                "extract": {"column": column.name},
            },
        }
        fields.append(field | {"repeated": True} if is_list else field)
    return {"@type": "cr:RecordSet", "@id": table, "name": table, "field": fields}
