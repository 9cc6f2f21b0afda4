#!/usr/bin/env bash
# Writes requirements/lock.txt: one exact version of everything but torch and triton. It is solved for Python 3.11,
# the oldest that roofcal runs on, and used for 3.12 as well. `tools/lock.sh --upgrade` takes newer versions.
# torch and triton are left out because their build depends on the machine: requirements/torch-*.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" -qq install -r requirements/uv.txt

printf '%s\n' "torch; sys_platform == 'none'" "triton; sys_platform == 'none'" >"$work/not-here.txt"
"$work/venv/bin/uv" pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
    --extra measure --extra report --extra symbolic --extra dev --no-emit-package torch --no-emit-package triton \
    --override "$work/not-here.txt" --custom-compile-command "make lock" "$@" \
    --output-file requirements/lock.txt pyproject.toml requirements/torch-needs.in
