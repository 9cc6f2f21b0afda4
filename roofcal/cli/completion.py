"""`--print-completion`: what a shell needs to complete commands, options, devices and recipes."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

# Options and arguments that are files or folders.
_PATHS = ("out", "run", "points", "shapes", "calibration", "folder", "folders", "plan", "table")


class PrintCompletion(argparse.Action):
    """Prints the script and ends the program; its devices and recipes are those of today."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        """Print the script of the shell in `values`."""
        import shtab

        from roofcal.ask.names import device_ids
        from roofcal.core.recipes import GEMM_RECIPES
        from roofcal.ops import BY_NAME

        names = {"device": device_ids(), "op": list(BY_NAME), "recipe": list(GEMM_RECIPES)}
        for command in commands_of(parser).values():
            for action in command._actions:
                if action.dest in _PATHS:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
                elif action.choices is None:
                    action.choices = names.get(action.dest)
        parser.prog = "roofcal"  # what the shell completes, however this was started
        print(shtab.complete(parser, str(values)))
        parser.exit()


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its name."""
    subparsers = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(next(subparsers).choices)
