"""Where baselines live: one file of text per name, in a folder that belongs into git.

`names` says what a name may be, `document` how a baseline is written, `store` where, `waivers` what is let through
until a date.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabgate.baselines.document import Baseline
    from stabgate.measure.record import Record

FOLDER = "stabgate-baselines"


def read_baseline(text: str, folder: str | os.PathLike[str] | None = None) -> Record:
    """The measurement behind a name ("credit/shap") in a folder of baselines, or behind the path of such a file.

    Args:
        text: a name, or a path that ends in ".json".
        folder: where names are looked up; `stabgate-baselines` in the working directory by default.

    Raises:
        InputError: there is none, its file is damaged or of another schema, or the name cannot be one.
    """
    return find_baseline(text, folder).record


def find_baseline(text: str, folder: str | os.PathLike[str] | None = None) -> Baseline:
    """As `read_baseline`, with who accepted it."""
    from stabgate.baselines.names import is_address
    from stabgate.baselines.store import Baselines, load

    if is_address(text):
        return load(text)
    return Baselines(FOLDER if folder is None else folder).read(text)
