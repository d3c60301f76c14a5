"""Writes docs/commands.md: every command, flag and ini key, read from the parsers that users meet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_stabgate import plugin
from stabgate.cli import _parser as command_line

PAGE = Path(__file__).with_name("commands.md")
INTRODUCTION = """# Commands and flags

Read from the code by `docs/make_commands.py`; a test fails when this page and the code differ.

"""
INI = (
    "In `[tool.pytest.ini_options]`, `pytest.ini` or `tox.ini`; a flag goes before its key. An unknown key that begins "
    "with `stabgate_` is an error."
)


class Recorder:
    """Stands where pytest's parser stands, and keeps what the plugin adds."""

    def __init__(self) -> None:
        self.flags: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[tuple[str, dict[str, Any]]] = []

    def getgroup(self, *_: Any) -> Recorder:
        return self

    def addoption(self, *names: str, **how: Any) -> None:
        self.flags.append((", ".join(f"`{name}`" for name in names), how))

    def addini(self, name: str, **how: Any) -> None:
        self.keys.append((f"`{name}`", how))


def page() -> str:
    """The whole page."""
    recorder = Recorder()
    plugin.pytest_addoption(recorder)  # type: ignore[arg-type]  # it has the methods that are called
    lines = ["## Flags of pytest", "", "| flag | value | meaning |", "| --- | --- | --- |"]
    lines += [f"| {name} | {_value(how)} | {_cell(how.get('help'))} |" for name, how in recorder.flags]
    lines += ["", "## Ini keys", "", INI, "", "| key | meaning |", "| --- | --- |"]
    lines += [f"| {name} | {_cell(how.get('help'))} |" for name, how in recorder.keys]
    lines += ["", "## The command `stabgate`", ""]
    parser = command_line()
    lines += [_text(parser.description), ""]
    if parser.epilog:
        lines += ["```text", parser.epilog.strip("\n"), "```", ""]
    for command in _commands(parser):
        lines += _command(*command)
    return INTRODUCTION + "\n".join(lines).rstrip() + "\n"


Commands = list[tuple[str, str, argparse.ArgumentParser]]


def _commands(parser: argparse.ArgumentParser, before: str = "stabgate") -> Commands:
    """Name, one line of help and parser of each command, the commands of a command after it."""
    found: Commands = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            short = {choice.dest: _text(choice.help) for choice in action._choices_actions}
            for name, command in action.choices.items():
                found += [(f"{before} {name}", short.get(name, ""), command), *_commands(command, f"{before} {name}")]
    return found


def _command(name: str, short: str, parser: argparse.ArgumentParser) -> list[str]:
    lines = [f"### {name}", "", _text(parser.description) or short[:1].upper() + short[1:] + ".", ""]
    actions = [
        action
        for action in parser._actions
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
        and action.help is not argparse.SUPPRESS
    ]
    if actions:
        lines += ["| argument | default | meaning |", "| --- | --- | --- |"]
        lines += [f"| {_names(action)} | {_default(action)} | {_cell(action.help)} |" for action in actions]
        lines.append("")
    if parser.epilog:
        lines += ["```text", parser.epilog.strip("\n"), "```", ""]
    return lines


def _names(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    if not action.option_strings:
        return f"`{metavar}`"
    value = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else metavar
    if not action.choices and action.metavar is None:
        value = value.upper()
    value = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings).replace("|", "\\|")


def _default(action: argparse.Action) -> str:
    if action.default in (None, argparse.SUPPRESS, False, []) or not action.option_strings:
        return "required" if action.required and action.nargs not in ("*", "?") else ""
    return f"`{action.default}`"


def _value(how: dict[str, Any]) -> str:
    if how.get("choices"):
        return " ".join(f"`{choice}`" for choice in how["choices"])
    return "" if how.get("action") in ("store_true", "store_const") else f"`{how.get('metavar') or 'VALUE'}`"


def _text(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())


def _cell(text: str | None) -> str:
    return _text(text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
