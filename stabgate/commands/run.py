"""``stabgate run``: gates of a pipeline that is not pytest, from ``[tool.stabgate]`` or from flags."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import replace
from typing import Any

from stabgate.commands.telling import say

HELP = "measure and judge gates without pytest"
DESCRIPTION = "Measure and judge the gates of a configuration, or the one that flags describe."
EPILOG = """examples:
  stabgate run
  stabgate run credit/shap --config stabgate.toml --json results.json --html report.html
  stabgate run --model credit:load_model --data credit.csv --drop default --explainer lime -k 3 --share 0.9
  stabgate run --model nets:resnet --data photos/ --size 224 --explainer gradcam --score 0.6
  stabgate run --model models:/credit@challenger --data credit.parquet --explainer shap \\
      --name credit/shap --baseline models:/credit@champion --max-drop 0.1

Without --config, the tables [tool.stabgate] of stabgate.toml or pyproject.toml in this folder are read, where there are
any. Each table [tool.stabgate.gates."name"] is a gate; what it does not say stands in [tool.stabgate], and what that
does not say either are flags and defaults. A flag goes before [tool.stabgate], the table of a gate before both. With
--name the flags describe a gate of their own, and it alone is run.

exit codes: 0 every gate passed, 1 at least one failed, 3 none failed and at least one was not measured or is
inconclusive (unless --inconclusive=warn), 2 wrong usage: a key, a file, a model or a column that is not there.
"""
FLAGS = (
    "model",
    "data",
    "array",
    "drop",
    "index",
    "size",
    "background",
    "background_rows",
    "explainer",
    "share",
    "require",
    "score",
    "max_drop",
    "baseline",
    "target",
    "rows",
    "perturbations",
)
ROWS = 'size of a seeded sample, ids with commas between them (c1,c3; one number alone is [3]), or "sample"'


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    from stabgate.pipeline.config import GATE_KEYS, INTEGER, NUMBER, OUTPUTS, PLACES

    parser.add_argument("names", nargs="*", metavar="NAME", help="gates to run; all of the configuration by default")
    parser.add_argument("--config", default=None, metavar="FILE", help="TOML file with tables [tool.stabgate]")
    one = parser.add_argument_group("the gate")
    one.add_argument("--name", default=None, help="of the gate; the explainer's by default")
    one.add_argument("-k", dest="k", type=int, default=None, metavar="N", help=GATE_KEYS["k"].help)
    for name in FLAGS:
        key = GATE_KEYS[name]
        kind = int if key.kinds == (INTEGER,) else float if key.kinds == (NUMBER,) else str
        flag = f"--{name.replace('_', '-')}"
        many: dict[str, Any] = {"action": "append"} if name == "drop" else {}
        said = ROWS if name == "rows" else key.help
        one.add_argument(flag, dest=name, type=kind, default=None, metavar=kind.__name__.upper(), help=said, **many)
    one.add_argument(
        "--set",
        dest="set",
        action="append",
        default=None,
        metavar="NAME=VALUE",
        help='setting of the explainer, as TOML writes it: num_samples=1000, method="kernel"',
    )
    run = parser.add_argument_group("the run")
    from pytest_stabgate.settings import DEFAULTS, SETTINGS

    for name, setting in SETTINGS.items():
        if name != "missing":
            default = DEFAULTS[name] if DEFAULTS[name] is not None else "fail; warn with a fresh seed"
            run.add_argument(
                f"--{name}", default=None, metavar=setting.shown, help=f"{setting.help} (default {default})"
            )
    for name, key in {**PLACES, **OUTPUTS}.items():
        run.add_argument(f"--{name}", default=None, metavar="DIR" if name in PLACES else "FILE", help=key.help)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "-q", "--quiet", action="store_const", const=-1, dest="verbosity", help="problems and the count"
    )
    amount.add_argument("-v", "--verbose", action="store_const", const=1, dest="verbosity", help="all that is known")
    parser.set_defaults(run=_run, verbosity=0)


def _run(options: argparse.Namespace) -> int:
    from stabgate.pipeline.config import find_config, read_config
    from stabgate.pipeline.running import Runner, exit_code
    from stabgate.report.github import tell_github

    config = replace(read_config(find_config(options.config), _flags(options)), flags=_words(options))
    if "html" in config.outputs:
        from stabgate.report.html import check_html

        check_html()
    evidence = tempfile.mkdtemp(prefix="stabgate-")
    try:
        runner = Runner(config, evidence)
        report = runner.run(options.names, told=_begins if options.verbosity > 0 else lambda _: None)
    finally:
        shutil.rmtree(evidence, ignore_errors=True)
    say(report, options.verbosity or 0)
    _write(report, config.outputs)
    tell_github(report, print)
    return exit_code(report, runner.wrong)


def _begins(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


def _write(report: Any, outputs: Any) -> None:
    from stabgate.commands.report import FORMS

    for kind, file in outputs.items():
        if kind == "json":
            report.save(file)
        else:
            FORMS[kind][1](report, file)
        print(f"{kind}: {file}")


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    from stabgate.pipeline.config import OUTPUTS, PLACES, SETTINGS_ON_THE_COMMAND_LINE

    names = (*FLAGS, "k", "name", *SETTINGS_ON_THE_COMMAND_LINE, *OUTPUTS, *PLACES)
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    if "target" in given:
        given["target"] = _plain(given["target"])
    if "rows" in given:
        given["rows"] = _rows(given["rows"])
    if options.set:
        from stabgate.errors import InputError

        if "explainer" not in given:
            raise InputError("--set gives a setting to an explainer: say which, with --explainer")
        settings = dict(_setting(text) for text in options.set)
        given["explainer"] = {"name": given["explainer"], **settings}
    return given


def _words(options: argparse.Namespace) -> tuple[str, ...]:
    """The flags that were given, but for names and outputs, as words of a command line that gives them again."""
    from stabgate.pipeline.config import PLACES, SETTINGS_ON_THE_COMMAND_LINE

    words = [] if options.k is None else ["-k", str(options.k)]
    for name in (*FLAGS, "set", *SETTINGS_ON_THE_COMMAND_LINE, *PLACES):
        value = getattr(options, name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        words += [f"--{name.replace('_', '-')}={one}" for one in values]
    return tuple(words)


def _rows(text: str) -> Any:
    """The size of a sample, "sample", or ids: as TOML writes a list, or with commas between them."""
    found = _plain(text)
    if type(found) in (int, list) or found == "sample":
        return found
    return [part.strip() for part in text.split(",")]


def _setting(text: str) -> tuple[str, Any]:
    from stabgate.errors import InputError

    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise InputError(f"--set {text}: it is written NAME=VALUE, as in num_samples=1000")
    return name, _plain(value)


def _plain(text: str) -> Any:
    """A value as TOML writes it; what is none is a text."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
