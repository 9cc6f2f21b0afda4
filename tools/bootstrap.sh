#!/usr/bin/env bash
# Makes the virtual environment of this checkout from requirements/; `make env` calls it. Does nothing when it is
# up to date.   Usage: tools/bootstrap.sh [FOLDER]      Variables:
#   PYTHON  interpreter to build from (default: the first of python3, python3.12, python3.11 that is 3.11 or 3.12)
#   TORCH   auto (default: by the driver found here) | cpu | cuda | cuda12 | rocm
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv}
stamp=$venv/roofcal.stamp
wanted_torch=${TORCH:-auto}
PATH=${PATH//"$(pwd)/$venv/bin:"/} # an active or half-made .venv has no say in which Python is found

say() { printf 'env: %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
    exit 2
}

# --- which build of torch ---------------------------------------------------------------------------------------

nvidia_driver() { # prints the major version of the driver; fails without one. nvidia-smi may take seconds: last
    local version=
    if [ -r /proc/driver/nvidia/version ]; then version=$(</proc/driver/nvidia/version); fi
    if [ -z "$version" ]; then
        version=" $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null)" || return 1
    fi
    [[ $version =~ \ ([0-9]{3})\.[0-9]+ ]] && echo "${BASH_REMATCH[1]}"
}

torch_for_this_machine() {
    local driver
    if driver=$(nvidia_driver); then
        if ((driver >= 580)); then echo cuda; else echo cuda12; fi
    elif [ -e /dev/kfd ]; then
        echo rocm
    else
        # A login node without a GPU must not undo what a compute node needs: a GPU build runs on CPUs too.
        installed_torch | grep -x -e cuda -e cuda12 -e rocm || echo cpu
    fi
}

installed_torch() { sed -n 's/^torch: //p' "$stamp" 2>/dev/null || true; }

# --- which Python -----------------------------------------------------------------------------------------------

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }
version_of() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "no Python that runs"; }
# The interpreter behind a virtual environment: one that is active may be gone tomorrow.
base_of() { "$1" -c 'import sys; print(sys._base_executable)'; }

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        supported "$PYTHON" || die "PYTHON=$PYTHON is $(version_of "$PYTHON"): roofcal needs 3.11 or 3.12"
        base_of "$PYTHON"
        return
    fi
    for candidate in python3 python3.12 python3.11; do
        if supported "$candidate"; then base_of "$candidate"; return; fi
    done
    die "no Python 3.11 or 3.12 found (python3 is $(version_of python3))" \
        "Ways out: install one (Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv; or: uv python install 3.12)" \
        "and name it if it is not on the PATH:  make ... PYTHON=/path/to/python3.12" \
        "or use conda:  conda env create -f environment.yml && conda activate roofcal && make ... VENV=none"
}

# --- installing -------------------------------------------------------------------------------------------------

install_packages() { "$venv/bin/python" tools/install.py "$@"; }

install_cpu_torch() {
    local log=$venv/torch.log
    install_packages -c requirements/lock.txt -r requirements/torch-cpu.txt 2>"$log" && return
    install_packages -c requirements/lock.txt -r requirements/torch-cpu.txt \
        --extra-index-url https://download.pytorch.org/whl/cpu 2>>"$log" && return
    grep '^ERROR' "$log" | tail -n 2 >&2 || true
    die "no CPU build of torch for Python $(version_of "$venv/bin/python") in pip's own sources or at download.pytorch.org" \
        "(everything uv and pip said: $log)" \
        "Ways out: another Python, if a wheel for it lies on this machine:  make ... PYTHON=python3.11 (or python3.12)" \
        "or the CUDA build of PyPI, which runs on CPUs too (about 3 GB):  make ... TORCH=cuda" \
        "or an environment that has torch >= 2.11:  make ... VENV=none PYTHON=/path/to/python"
}

install_torch() {
    case $1 in
        cpu) install_cpu_torch ;;
        *) install_packages -c requirements/lock.txt -r "requirements/torch-$1.txt" ||
            die "neither uv nor pip could install requirements/torch-$1.txt (their messages are above)" \
                "Ways out: run it again if the network failed; TORCH=cpu|cuda|cuda12|rocm picks another build;" \
                "or an environment that has torch >= 2.11:  make ... VENV=none PYTHON=/path/to/python" ;;
    esac
}

create_venv() { # $1: interpreter
    # `venv --clear` follows a link and empties what it leads to: the environment of another checkout, say.
    [ ! -L "$venv" ] || die "$venv is a link to $(readlink "$venv"), which is of other packages or another folder" \
        "Ways out: use it as it is:  make ... VENV=none PYTHON=$venv/bin/python" \
        "or remove the link, and this checkout gets an environment of its own"
    [ ! -e "$venv" ] || [ -e "$venv/pyvenv.cfg" ] || die "$venv exists and is no virtual environment: move it away"
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$1 ($(version_of "$1")) has no venv or no ensurepip" \
            "Ways out: Debian, Ubuntu: apt-get install python3-venv; or another Python: make ... PYTHON=/path/to/python3.12"
    "$1" -m venv --clear "$venv"
}

# --- main -------------------------------------------------------------------------------------------------------

case $wanted_torch in
    auto) torch=$(torch_for_this_machine) ;;
    cpu | cuda | cuda12 | rocm) torch=$wanted_torch ;;
    *) die "TORCH=$wanted_torch: allowed are auto, cpu, cuda, cuda12, rocm" ;;
esac

describe() { # what the environment is made of; the stamp holds it, so any difference makes a new one
    echo "folder: $(pwd)/$venv"
    echo "torch: $torch"
    cat requirements/lock.txt "requirements/torch-$torch.txt" | sha256sum
    version_of "${PYTHON:-$venv/bin/python}"
}

# `roofcal` in the environment runs this checkout, from any folder: an installed package would be a copy, and
# `python -m` would take the roofcal of the current folder. Environments from before have no such file yet.
write_command() {
    local command=$venv/bin/roofcal checkout python text
    printf -v checkout %q "$(pwd)"
    printf -v python %q "$(cd "$venv/bin" && pwd)/python"
    text="#!/usr/bin/env bash
export PYTHONSAFEPATH=1 PYTHONPATH=$checkout\${PYTHONPATH:+:\$PYTHONPATH}
exec $python -m roofcal \"\$@\""
    [ "$(cat "$command" 2>/dev/null)" = "$text" ] && return
    printf '%s\n' "$text" >"$command"
    chmod +x "$command"
}

if [ "$(cat "$stamp" 2>/dev/null)" = "$(describe)" ]; then
    write_command
    exit 0
fi

python=$(find_python)
say "$venv with Python $(version_of "$python") and the $torch build of torch; this takes some minutes once"
create_venv "$python"
say "installing requirements/torch-$torch.txt: $(grep -E '^torch==' "requirements/torch-$torch.txt")"
install_torch "$torch" # first: it is the part that can fail
say "installing $(grep -c == requirements/lock.txt) packages of requirements/lock.txt"
install_packages -r requirements/lock.txt || die "neither uv nor pip could install requirements/lock.txt (their messages are above)"
"$venv/bin/python" tools/check_environment.py --dev
write_command
PYTHON=$python describe >"$stamp"
say "ready: $venv; \`. $venv/bin/activate\` puts the command roofcal on the PATH"
