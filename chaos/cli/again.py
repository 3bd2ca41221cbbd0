"""The verb `judge`: judge a recorded run again."""

from __future__ import annotations

import argparse

from chaos.cli.judging import judge_folder, show
from chaos.cli.reporting import folder_of


def main(call: argparse.Namespace) -> int:
    """Print the summary."""
    result, history = judge_folder(folder_of(call.run))
    show(result, history, {})
    return result.exit
