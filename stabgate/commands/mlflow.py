"""``stabgate mlflow push``: send the sessions that could not be sent when they ended."""

from __future__ import annotations

import argparse

HELP = "sessions that wait to be logged to MLflow"
DESCRIPTION = "Sessions that wait to be logged to MLflow."
EPILOG = """examples:
  stabgate mlflow push
  stabgate mlflow push /tmp/stabgate-outbox
  stabgate mlflow push --uri http://mlflow.example.com:5000

exit codes: 0 nothing waits any more, 1 something still does, 2 wrong usage
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    push = actions.add_parser(
        "push",
        help="send what waits",
        description="Send the sessions that could not be sent to MLflow when they ended; twice is as good as once.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    push.add_argument("outbox", nargs="?", default=None, metavar="FOLDER", help="default: .stabgate/outbox")
    push.add_argument("--uri", default=None, help="another store than the one that was meant")
    push.set_defaults(run=_push)


def _push(options: argparse.Namespace) -> int:
    from pathlib import Path

    from stabgate.errors import InputError
    from stabgate.mlflow_store import absolute
    from stabgate.tracking import push
    from stabgate.tracking.outbox import OUTBOX

    outbox = Path(options.outbox or OUTBOX)
    if options.outbox and not outbox.is_dir():
        raise InputError(f"{outbox}: there is no such folder")
    sent = kept = 0
    for folder, problem in push(outbox, uri=absolute(options.uri) if options.uri else None):
        print(f"{folder.name}: {f'still waits: {problem}' if problem else 'sent'}", flush=True)
        kept += bool(problem)
        sent += not problem
    print(f"{sent} sent, {kept} still waiting in {outbox}" if sent or kept else f"nothing waits in {outbox}")
    return 1 if kept else 0
