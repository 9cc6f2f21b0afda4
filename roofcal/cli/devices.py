"""`devices`: which devices can be asked about, and what was measured of each."""

import argparse

from roofcal.cli.arguments import Commands, show


def add_devices(commands: Commands) -> None:
    """Declare `devices` and its argument."""
    parser = commands.add_parser("devices", help="the devices there are, and what was measured")
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    parser.set_defaults(run=_devices)


def _devices(options: argparse.Namespace) -> None:
    from roofcal.ask.device_list import Devices

    show(Devices(), as_json=options.json)
