"""Model, data, background and explainer of a gate, from what a configuration calls them. No pickle is ever read."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError, MissingDependencyError
from stabgate.pipeline.fields import read_csv

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXPLAINERS = {
    "shap": "Shap",
    "lime": "Lime",
    "dice": "Dice",
    "captum": "Captum",
    "gradcam": "GradCam",
    "lime_image": "LimeImage",
    "random": "Random",
}
ADDRESSES = ("models:/", "runs:/", "mlflow-artifacts:/", "m-")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")
ACCEPTED = (
    'module:object, module:factory, or an MLflow address such as "models:/credit@champion". Files of pickles run code '
    "when they are read: load yours in a function of your own and name that"
)


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Modules are found in `folder` first, as they are for a script that lies in it."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def load_model(spec: str, *, folder: Path, where: str) -> Any:
    """The model behind `spec`; an MLflow address, or a folder that MLflow wrote, stays the text that stabgate reads.

    Raises:
        InputError: it is none of what is accepted, or cannot be loaded.
    """
    if spec.startswith(ADDRESSES):
        return spec
    path = folder / spec
    if (path / "MLmodel").is_file():
        return str(path)
    if _is_code(spec, folder):
        return load_object(spec, where=f"{where}model")
    what = "is a file of pickles" if Path(spec).suffix in PICKLES else "is neither"
    raise InputError(f"{where}model = {spec!r}: {what}; accepted are {ACCEPTED}")


def load_object(spec: str, *, where: str) -> Any:
    """What ``module:name`` is; a callable without required arguments that is no model itself is called.

    Raises:
        InputError: the module cannot be imported, has no such name, or the factory raises.
    """
    module_name, _, attribute = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise InputError(
            f"{where} = {spec!r}: the module {module_name!r} cannot be imported ({type(error).__name__}: {error}); it "
            "is looked for beside the configuration and where Python is installed"
        ) from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, [n for n in dir(found) if not n.startswith("_")], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{where} = {spec!r}: {module_name} has no {part!r}{hint}")
        found = getattr(found, part)
    if not _is_factory(found):
        return found
    try:
        return found()
    except Exception as error:
        raise InputError(f"{where} = {spec!r}: it raised {type(error).__name__}: {error}") from error


def load_data(given: Mapping[str, Any], key: str, *, folder: Path, where: str) -> tuple[Any, Sequence[str] | None]:
    """The data that `given[key]` names, and the names of its images where it is a folder of them.

    Raises:
        InputError: no such file, another kind of file, a column or array that is not in it.
        MissingDependencyError: a package that reads it.
    """
    spec, place = str(given[key]), f"{where}{key} = {given[key]!r}"
    path = folder / spec
    if _is_code(spec, folder):
        return load_object(spec, where=f"{where}{key}"), None
    if path.is_dir():
        return _image_folder(path, given.get("size"), place)
    if not path.is_file():
        raise InputError(f"{place}: there is no such file or folder ({path})")
    if path.suffix == ".npz":
        return _npz(path, given.get("array"), place), None
    if path.suffix in (".csv", ".parquet"):
        return _table(path, given, place), None
    what = "; pickles run code when they are read" if path.suffix in PICKLES else ""
    raise InputError(f"{place}: accepted are .csv, .parquet and .npz files, folders of images, and module:object{what}")


def make_explainer(given: Mapping[str, Any], model: Any, background: Any, *, where: str) -> Any:
    """The explainer that a gate names, with its settings.

    Raises:
        InputError: an unknown name or setting, with the nearest; or a module that cannot be imported.
    """
    table = given["explainer"] if isinstance(given["explainer"], dict) else {"name": given["explainer"]}
    settings = {name: value for name, value in table.items() if name != "name"}
    name = str(table["name"])
    if ":" in name:
        return _own_explainer(name, settings, where)
    if name not in EXPLAINERS:
        near = difflib.get_close_matches(name, EXPLAINERS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{where}explainer = {name!r}: unknown{hint} (known: {', '.join(EXPLAINERS)}, module:factory)")
    from stabgate import explainers

    make = getattr(explainers, EXPLAINERS[name])
    parameters = inspect.signature(make).parameters
    own = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY and n != "background"]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for setting in settings:
        if setting not in own and not open_ended:
            near = difflib.get_close_matches(setting, own, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{where}explainer: {name} has no setting {setting!r}{hint} (known: {', '.join(own)})")
    if model is None and name != "random":
        raise InputError(f"{where}model is missing: {ACCEPTED}")
    if "background" in parameters and background is not None:
        settings["background"] = background
    try:
        return make(model, **settings)
    except TypeError as error:
        raise InputError(f"{where}explainer = {name!r}: {error}") from error


def sampled(background: Any, size: int | None, *, seed: int, where: str) -> Any:
    """A seeded sample of the background.

    Raises:
        InputError: there are not that many rows.
    """
    if size is None:
        return background
    from stabgate.selection import choose_rows

    try:
        return choose_rows(background, size, seed=seed)[0]
    except InputError as error:
        raise InputError(f"{where}background_{error}") from error


def _own_explainer(spec: str, settings: Mapping[str, Any], where: str) -> Any:
    if settings:
        raise InputError(f"{where}explainer = {spec!r} takes no settings here: give them where it is made")
    found = load_object(spec, where=f"{where}explainer")
    if callable(getattr(found, "explain", None)):
        return found
    if callable(found):
        from stabgate.explainers import Custom

        return Custom(found, name=spec.partition(":")[2])
    raise InputError(f"{where}explainer = {spec!r}: a {type(found).__name__}, which has no explain(X, *, seed)")


def _is_code(spec: str, folder: Path) -> bool:
    module, colon, attribute = spec.partition(":")
    dotted = all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])
    return bool(colon) and dotted and not (folder / spec).exists()


def _is_factory(found: Any) -> bool:
    """Callable without arguments, and no model: those are called with rows."""
    if not callable(found) or (not isinstance(found, type) and any(hasattr(found, n) for n in ("predict", "explain"))):
        return False
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(found, torch.nn.Module):
        return False
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        return False
    return True


def _table(path: Path, given: Mapping[str, Any], place: str) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependencyError(f"{place}: reading it needs pandas: pip install pandas") from error
    try:
        frame = read_csv(path, place) if path.suffix == ".csv" else pd.read_parquet(path)
    except InputError:
        raise
    except ImportError as error:
        raise MissingDependencyError(f"{place}: reading it needs pyarrow: pip install pyarrow") from error
    except Exception as error:
        raise InputError(f"{place}: cannot be read ({type(error).__name__}: {error})") from error
    drop = given.get("drop", [])
    drop = [drop] if isinstance(drop, str) else list(drop)
    index = given.get("index")
    for key, names in (("drop", drop), ("index", [] if index is None else [index])):
        for name in names:
            if name not in frame.columns:
                known = [str(column) for column in frame.columns]
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(f"{place}: {key} names the column {name!r}, which is not in it{hint} (there: {known})")
    if index is not None:
        frame = frame.set_index(index)
    return frame.drop(columns=[name for name in drop if name != index])


def _npz(path: Path, array: str | None, place: str) -> NDArray[Any]:
    import numpy as np

    if not zipfile.is_zipfile(path):
        raise InputError(f"{place}: is no npz file, or a damaged one; numpy.savez writes them")
    try:
        with np.load(path, allow_pickle=False) as file:
            names = list(file.files)
            wanted = array or (names[0] if len(names) == 1 else "X")
            if wanted not in names:
                raise InputError(
                    f"{place}: has no array {wanted!r} (there: {', '.join(names)}); say which: array = ..."
                )
            found: Any = file[wanted]
    except InputError:
        raise
    except Exception as error:  # a damaged archive raises whatever zipfile, zlib or numpy come upon
        raise InputError(
            f"{place}: an array of it cannot be read: it is damaged, or holds objects; arrays of objects are pickles, "
            "which are not read"
        ) from error
    if not isinstance(found, np.ndarray):
        raise InputError(f"{place}: {wanted!r} is no array; numpy.savez writes files of arrays")
    return found


def _image_folder(path: Path, size: int | None, place: str) -> tuple[NDArray[np.float64], list[str]]:
    import numpy as np

    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(f"{place}: reading images needs Pillow: pip install 'stabgate[torch]'") from error
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES)
    if not files:
        raise InputError(f"{place}: there is no image in it ({', '.join(IMAGES)})")
    images: list[NDArray[np.float64]] = []
    for file in files:
        try:
            with Image.open(file) as picture:
                image = picture.convert("RGB")
        except OSError as error:
            raise InputError(f"{place}: {file.name} cannot be read ({error})") from error
        if size is not None:
            image = image.resize((size, size), Image.Resampling.BICUBIC)
        elif images and image.size != (images[0].shape[2], images[0].shape[1]):
            first = f"{images[0].shape[2]} x {images[0].shape[1]}"
            raise InputError(
                f"{place}: {file.name} has {image.size[0]} x {image.size[1]} pixels, {files[0].name} has {first}; "
                "say size = ... to resize them"
            )
        images.append(np.asarray(image, dtype=np.float64).transpose(2, 0, 1) / 255.0)
    return np.stack(images), [file.relative_to(path).as_posix() for file in files]
