"""Text as a page carries it: gzip in base64, which a browser unpacks when somebody looks at it."""

import gzip
import json
from base64 import b64encode
from typing import Any


def packed(text: str) -> str:
    """The text in base64 of gzip without a date: equal texts give equal bytes."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def packed_json(value: Any) -> str:
    """A JSON value, packed; raises ValueError for NaN, which JSON does not have."""
    return packed(json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False))
