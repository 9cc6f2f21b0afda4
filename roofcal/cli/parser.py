"""A parser whose mistakes are one line with the nearest name that is allowed."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from roofcal.core.names import did_you_mean, did_you_mean_or_all


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that answers a mistake by one line and exit code 2, and lists groups.

    groups: heading of --help -> names of the commands below it, for a parser with commands.

    The namespace of a command has the arguments that were given, and `spelling`: name of each of
    them -> how a person writes it.
    """

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._groups = groups or {}

    def error(self, message: str) -> NoReturn:
        """Print one line, without the usage, which --help prints; exit code 2."""
        self.exit(2, f"error: {message} (`{self.prog} --help` lists what there is)\n")

    def format_help(self) -> str:
        """The help text, with the commands below the headings of their groups."""
        if not self._groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        (commands,) = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        by_name = {action.dest: action for action in commands._get_subactions()}
        for heading, names in self._groups.items():
            formatter.start_section(heading)
            formatter.add_arguments([by_name[name] for name in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action is not commands])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def parse_known_args(  # type: ignore[override]  # argparse has overloads for other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse, but no word is left over: a command knows its own options best."""
        words = list(sys.argv[1:] if args is None else args)
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                break
            self._check_option(word.partition("=")[0])
        found, extras = super().parse_known_args(words, namespace)
        if extras:
            together = [action for action in self._actions if action.nargs == "*"]
            forms = [f"; {one.metavar} stand together: {one.help}" for one in together]
            self.error(f"does not take {' '.join(extras)[:80]!r}{''.join(forms)}")
        if self._subparsers is None:
            found.spelling = {
                action.dest: action.option_strings[-1] if action.option_strings else action.metavar
                for action in self._actions
            }
        return found, extras

    def _check_option(self, option: str) -> None:
        """Refuse an option that no option of this parser starts with."""
        options = self._option_string_actions
        if option.startswith("--") and not any(name.startswith(option) for name in options):
            long_names = [name for name in options if name.startswith("--")]
            self.error(f"unknown option {option[:40]}{did_you_mean(option, long_names)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, with the nearest of them."""
        if action.choices is not None and value not in action.choices:
            nearest = did_you_mean_or_all(str(value), map(str, action.choices))
            is_command = isinstance(action, argparse._SubParsersAction)
            what = f"unknown command '{value}'" if is_command else f"'{value}'"
            raise argparse.ArgumentError(None if is_command else action, f"{what}{nearest}")
