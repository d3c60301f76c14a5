"""Models by their address: a registry's version or alias, a run's model, a folder; and where exactly they came from."""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from stabgate.errors import InputError, ModelError, TrackingError
from stabgate.mlflow_store import connected, environment, is_missing, reason, require_mlflow, store_uri
from stabgate.models import Model

# Flavours whose own object explainers can look into, in order of preference; everything else is called as a pyfunc.
NATIVE = ("sklearn", "xgboost", "lightgbm", "catboost", "pytorch")
FORMS = 'models:/credit@champion, models:/credit/7, runs:/RUN/model, or a folder that mlflow wrote ("MLmodel" in it)'
_REGISTERED = re.compile(r"models:/+(?P<name>[^/]+?)(?:@(?P<alias>[^/@]+)|/(?P<version>[^/]+))?/?")
_SCHEME = re.compile(r"([a-z][a-z0-9+.\-]+):/", re.IGNORECASE)  # two letters at least: C:/ is a drive
# Where MLflow reads models from, those that people write first; plugins bring more.
SCHEMES = (
    *("models", "runs", "file", "mlflow-artifacts", "http", "https", "s3", "r2", "b2", "gs", "wasbs", "abfss", "dbfs"),
    *("hdfs", "viewfs", "ftp", "sftp"),
)
_kept: list[tempfile.TemporaryDirectory[str]] = []  # downloaded models: some read their files when they are called


@dataclass(frozen=True)
class Version:
    """A version of a registered model.

    Attributes:
        name: of the model.
        version: its number, as text.
        alias: the alias that it was asked for by; empty where it was asked for by number.
        location: where its files are.
        model_id: of the logged model behind it; empty before MLflow 3.
    """

    name: str
    version: str
    alias: str
    location: str
    model_id: str

    def __str__(self) -> str:
        return f"version {self.version} of {self.name}" + (f" (alias {self.alias})" if self.alias else "")


def is_registered(address: Any) -> bool:
    """Whether an address is a registry's: ``models:/...``."""
    return isinstance(address, str) and address.startswith("models:/")


def parse_registered(address: str) -> tuple[str, str, str]:
    """Name, alias and version of ``models:/name@alias`` or ``models:/name/version``; what is not there is empty.

    Raises:
        InputError: another form, or one that ends where alias or version should begin.
    """
    address = address.strip()
    found = _REGISTERED.fullmatch(address)
    for end, what in (("@", "alias"), ("/", "version")):
        if found is not None and address.endswith(end) and not found["alias"] and not found["version"]:
            name = found["name"].removesuffix("@") or "credit"
            raise InputError(f"{address}: its {what} is empty; write models:/{name}/7 or models:/{name}@champion")
    if found is None:
        raise InputError(f"{address!r} is not the address of a registered model; write models:/credit/7 or @champion")
    return found["name"], found["alias"] or "", found["version"] or ""


def find_version(client: Any, address: str) -> Version:
    """The version that an address means now.

    Raises:
        InputError: there is no such model, version or alias; the message says which there are.
    """
    name, alias, version = parse_registered(address)
    try:
        model = client.get_registered_model(name)
    except Exception as error:
        if not is_missing(error):
            raise
        known = [m.name for m in client.search_registered_models(max_results=20)]
        raise InputError(f"{address}: there is no registered model {name!r}; {_there_are('model', known)}") from error
    if not alias and not version:
        raise InputError(f"{address} names no version; write models:/{name}/7 or models:/{name}@champion")
    try:
        if alias:
            found = client.get_model_version_by_alias(name, alias)
        elif version.isdigit():
            found = client.get_model_version(name, version)
        else:
            latest = [v for v in _versions(client, name) if version in ("latest", str(v.current_stage))]
            found = latest[-1] if latest else None
    except Exception as error:
        if not is_missing(error):
            raise
        found = None
    if found is None:
        what = "alias" if alias else "version"
        known = [f"@{a}" for a in model.aliases] if alias else [f"/{v.version}" for v in _versions(client, name)]
        raise InputError(f"{address}: {name!r} has no {what} {alias or version!r}; {_there_are(what, known)}")
    number = str(found.version)
    location = str(client.get_model_version_download_uri(name, number))
    source = str(found.source or "")
    model_id = getattr(found, "model_id", None) or (source.removeprefix("models:/") if "models:/m-" in source else "")
    return Version(name, number, alias, location, str(model_id))


def _versions(client: Any, name: str) -> list[Any]:
    """The newest versions, oldest first."""
    found = client.search_model_versions(f"name={quoted(name)}", max_results=100, order_by=["version_number DESC"])
    return sorted(found, key=lambda one: int(one.version))


def quoted(text: str) -> str:
    """A text in the quotes that MLflow's filters know."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def _there_are(what: str, known: list[str]) -> str:
    if not known:
        return f"it has no {what} at all" if what != "model" else "the registry is empty"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"


def logged_model(address: str) -> Model:
    """The model at an address, as its own flavour where explainers can look inside, else as a pyfunc.

    Its `source` says which version that was; what is known of it travels into every record.

    Raises:
        InputError: there is nothing at that address, or no MLflow model.
        TrackingError: the store does not answer.
        ModelError: the model's files cannot be loaded.
        MissingDependencyError: mlflow is not installed.
    """
    _check(address)
    require_mlflow()
    folder, source = _fetch(address)
    from mlflow.models import Model as Description

    try:
        description = Description.load(str(folder))
    except Exception as error:
        raise InputError(f"{address}: {folder} holds no MLflow model ({reason(error)}); expected {FORMS}") from error
    model, flavour = _load(folder, description.flavors, address)
    known = {"model_id": description.model_id, "run_id": description.run_id, "flavor": flavour}
    source = {**source, **{name: str(value) for name, value in known.items() if value}}
    return _faced(model, source, f"mlflow:{description.model_uuid}")


def logged_network(address: str) -> tuple[Any, Mapping[str, str]]:
    """A torch module, or a function of a tensor of images, at an address; and its `source`.

    Raises:
        As `logged_model`.
    """
    model = logged_model(address)
    import torch

    if isinstance(model.inner, torch.nn.Module):
        return model.inner, model.source

    def outputs(images: torch.Tensor) -> torch.Tensor:
        found = model.call(images.detach().cpu().numpy())
        return torch.as_tensor(np.asarray(found, dtype=np.float64), device=images.device)

    outputs.__name__ = model.name
    return outputs, model.source


def scheme_of(address: str) -> str:
    """What an address begins with: "models" of ``models:/credit/7``; empty for a name or a path."""
    found = _SCHEME.match(address)
    return found[1] if found else ""


def nearest_scheme(address: str, schemes: Sequence[str] = SCHEMES) -> str:
    """For messages: the address under the scheme that was perhaps meant; "" where none is near."""
    scheme = scheme_of(address)
    near = difflib.get_close_matches(scheme.lower(), schemes, 1)
    return f"; did you mean {near[0] + address[len(scheme) :]!r}?" if near else ""


def _check(address: str) -> None:
    """Refuse what no store need be asked about."""
    if not address.strip():
        raise InputError(f"the model's address is empty; expected {FORMS}")
    scheme = scheme_of(address)
    if scheme and scheme not in SCHEMES:
        known = (*SCHEMES, *sorted({one.name for one in entry_points(group="mlflow.artifact_repository")}))
        if scheme not in known:
            hint = nearest_scheme(address, known)
            raise InputError(f"model {address!r}: unknown scheme {scheme!r}{hint} (known: {', '.join(known)})")
    run = re.fullmatch(r"runs:/+([^/]*)/*", address)
    if run is not None:
        raise InputError(
            f"model {address!r}: the path of the model within the run is missing; write runs:/{run[1] or 'RUN'}/model"
        )
    if is_registered(address) and not address.startswith("models:/m-"):
        parse_registered(address)


def _faced(model: Any, source: Mapping[str, str], fingerprint: str) -> Model:
    from stabgate.adapters import as_model
    from stabgate.fingerprint import NoFingerprintError
    from stabgate.fingerprint import fingerprint as content

    face = as_model(model)
    if face.fingerprint is None:
        try:
            content(face.inner if face.inner is not None else face.call)
        except NoFingerprintError:  # code of the user's own: what MLflow called it tells it from others
            face = replace(face, fingerprint=fingerprint)
    return replace(face, source=source)


def _fetch(address: str) -> tuple[Path, dict[str, str]]:
    """A folder with the files, and what is known of where they came from."""
    if address.startswith("file:") or not _SCHEME.match(address):
        folder = Path(address.removeprefix("file:")).expanduser()
        if not folder.exists():
            raise InputError(f"model {address!r} is text, and there is no such folder; expected {FORMS}")
        return folder, {"uri": address}
    uri = store_uri()
    source = {"uri": address}
    with connected(uri) as client:
        location = address
        if address.startswith("models:/m-") and "@" not in address:
            location = client.get_logged_model(address.removeprefix("models:/")).artifact_location
        elif address.startswith("models:"):
            version = find_version(client, address)
            location = version.location
            source |= {"name": version.name, "version": version.version}
            source |= {"alias": version.alias} if version.alias else {}
            if location.startswith("models:/m-"):
                location = client.get_logged_model(location.removeprefix("models:/")).artifact_location
        return _download(location, uri, address), source


def _download(location: str, uri: str, address: str) -> Path:
    from mlflow.artifacts import download_artifacts

    target = None
    if _SCHEME.match(location) and not location.startswith("file:"):
        _kept.append(tempfile.TemporaryDirectory(prefix="stabgate-model-"))
        target = _kept[-1].name
    try:
        return Path(download_artifacts(artifact_uri=location, dst_path=target, tracking_uri=uri))
    except Exception as error:
        if is_missing(error) or isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise InputError(f"{address}: there is no model ({reason(error)})") from error
        raise TrackingError(f"{address}: its files cannot be read from {location}: {reason(error)}") from error


def _load(folder: Path, flavours: Mapping[str, Any], address: str) -> tuple[Any, str]:
    from importlib import import_module

    problems = []
    for flavour in (*(name for name in NATIVE if name in flavours), "python_function"):
        if flavour not in flavours:
            continue
        options: dict[str, Any] = {}
        if flavour == "pytorch":
            import torch

            options = {} if torch.cuda.is_available() else {"map_location": "cpu"}
        name = "pyfunc" if flavour == "python_function" else flavour
        try:
            with environment({"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}):
                return import_module(f"mlflow.{name}").load_model(str(folder), **options), name
        except Exception as error:
            problems.append(f"as {name}: {type(error).__name__}: {reason(error)}")
    if not problems:
        raise ModelError(f"{address}: none of its flavours can be called ({', '.join(flavours)})")
    raise ModelError(f"{address} cannot be loaded {'; '.join(problems)}")
