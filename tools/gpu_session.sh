#!/usr/bin/env bash
# What only a machine with a GPU can say, in one command: tools/gpu_session.sh [part ...]
#
#   kernels   tests of kernels and of measuring that need a GPU
#   minute    the smallest study with empty caches: wall time, and what the device waited for by op
#   quick     the quick study with empty caches: wall time, and what the device waited for by op
#   health    how long `roofcal health` takes
#   energy    the energy of the board by its counter against the power that was integrated
#   repeat    96 products in two sessions, and alone until settled (tools/spot_checks.py)
#   unlisted  layers that no study lists, drawn by SEED: how wrong are predictions? (tools/spot_checks.py)
#   standard  the standard study in this checkout, to be published: first every op once, so that a
#             session which is cut short has seen all of them; another call goes on with it
#
# Without a part all run, in this order. Each is stopped after PART_S seconds. Logs go to OUT, which ends
# with summary.txt, the table that is printed last, and with the records of all studies, packed.
#   OUT=gpu-session             where logs and records go
#   PART_S=570                  most seconds of a part (5400 where standard runs in one call)
#   AWAY_S=...                  the parts run on in a session of their own when this call returns, after
#                               so many seconds; the next call waits for them likewise. For machines
#                               that lend minutes a call, and keep what a call has started
#   WORK=/tmp/roofcal-session   checkouts and caches of the studies that are measured to be looked at
#   SEED=...                    of unlisted; without it the shell draws one
#   VENV=none PYTHON=python3    as for make; PYTHONPATH is handed on
set -uo pipefail
cd "$(dirname "$0")/.."
OUT=$(mkdir -p "${OUT:=gpu-session}" && cd "$OUT" && pwd)
WORK=${WORK:-/tmp/roofcal-session}
PART_S=${PART_S:-570}
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
export VENV=${VENV:-.venv} PYTHON=${PYTHON:-} PYTHONUNBUFFERED=1
if [ "$VENV" = none ]; then python=${PYTHON:-python3}; else python=$PWD/$VENV/bin/python; fi
PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
# Records name the commit behind them, also where the checkout came here without its .git.
ROOFCAL_GIT_COMMIT=${ROOFCAL_GIT_COMMIT:-$(git rev-parse HEAD 2> /dev/null || true)}
export ROOFCAL_GIT_COMMIT
if ! [[ $ROOFCAL_GIT_COMMIT =~ ^([0-9a-f]{40})?$ ]]; then
    echo "ROOFCAL_GIT_COMMIT=$ROOFCAL_GIT_COMMIT is no full hash: give what git rev-parse HEAD prints" >&2
    exit 2
fi
mkdir -p "$WORK"

pack_records() { # Parts of 15 MB: what a machine is given back with may be limited by file.
    rm -f "$OUT"/records.tar.xz.*
    find results "$WORK" -type f 2> /dev/null |
        grep -E '/(plan|measurements|journal|log)/|environment\.jsonl$' | tar -cJf - -T - 2> /dev/null |
        split -b 15M - "$OUT/records.tar.xz."
}

if [ -n "${AWAY_S:-}" ]; then
    away=$WORK/away
    if [ ! -d "$away" ]; then
        mkdir -p "$away" && : > "$away/said"
        AWAY_S='' OUT=$away setsid bash -c '"$0" "$@"; echo $? > "$OUT/code"' "$BASH" "$0" "$@" >> "$away/said" 2>&1 &
    fi
    while [ ! -e "$away/code" ] && [ $SECONDS -lt "$AWAY_S" ]; do sleep 1; done
    cp "$away"/* "$OUT"/
    if [ -e "$away/code" ]; then
        rm -rf "$away"
        cat "$OUT/said"
        exit "$(cat "$OUT/code")"
    fi
    pack_records
    tail -n 3 "$OUT/said"
    echo "the parts still run: call again"
    exit 0
fi

fresh_checkout() { # <name>: a copy of this checkout below WORK, without anything that was measured
    rm -rf "${WORK:?}/$1" && mkdir -p "$WORK/$1" || return
    tar --exclude=./results --exclude=./.snakemake --exclude='./.venv*' --exclude="./${OUT##*/}" -cf - . |
        tar -xf - -C "$WORK/$1" || return
    [ "$VENV" = none ] || ln -s "$PWD/$VENV" "$WORK/$1/$VENV"
}

cold_caches() { # <name>: an empty folder for each cache of compiled kernels
    rm -rf "$WORK/$1-caches"
    export TRITON_CACHE_DIR=$WORK/$1-caches/triton TORCHINDUCTOR_CACHE_DIR=$WORK/$1-caches/inductor
    mkdir -p "$TRITON_CACHE_DIR" "$TORCHINDUCTOR_CACHE_DIR"
}

study_in() { # <checkout> <make variables...>
    local checkout=$1
    shift
    (cd "$checkout" && PYTHONPATH=$checkout:$PYTHONPATH exec make study "$@")
}

part_kernels() { "$python" -m pytest -m gpu -q -rs tests/kernels tests/roofcal; }

cold_study() { # <size>
    fresh_checkout "$1" && cold_caches "$1" && study_in "$WORK/$1" STUDY="$1"
}

part_minute() { cold_study minute; }

part_quick() { cold_study quick; }

part_health() { "$python" -m roofcal health --out "$WORK/fleet"; }

part_energy() { "$python" tools/spot_checks.py energy "$WORK/energy"; }

part_repeat() { "$python" tools/spot_checks.py repeat "$WORK/repeat"; }

part_unlisted() { "$python" tools/spot_checks.py unlisted "$WORK/unlisted" --seed "$SEED"; }

part_standard() {
    local once="'timing_of_study={\"standard\": {\"visits\": 1, \"most_visits\": 1, \"more_visits\": 0}}'"
    study_in "$PWD" STUDY=standard STUDY_CONFIG="$once" SNAKEMAKE_ARGS='--until measure' || return
    study_in "$PWD" STUDY=standard
}

# What a part found, in a few lines, from its log and its records.
finding() {
    case $1 in
        kernels) grep -E '(passed|failed|error)' "$OUT/kernels.log" | tail -1 ;;
        minute | quick | standard)
            local checkout=$PWD
            [ "$1" = standard ] || checkout=$WORK/$1
            "$python" tools/what_waited.py "$checkout/results"
            ;;
        health) grep -vE '^(waiting|study)' "$OUT/health.log" | tail -1 ;;
        energy) tail -1 "$OUT/energy.log" ;;
        repeat) tail -2 "$OUT/repeat.log" ;;
        unlisted) sed -n '/^seed /,$p' "$OUT/unlisted.log" ;;
    esac 2>&1
}

known='kernels minute quick health energy repeat unlisted standard'
for part in "${@:-$known}"; do
    for name in $part; do
        [[ " $known " == *" $name "* ]] || { echo "unknown part '$name'; parts: $known" >&2; exit 2; }
    done
done
: > "$OUT/summary.txt"
code=0
for part in ${*:-$known}; do
    echo "== $part"
    start=$SECONDS
    # A shell of its own, so that `timeout` ends everything the part started.
    export -f fresh_checkout cold_caches study_in cold_study "part_$part"
    export OUT WORK SEED python
    timeout -k 30 "$PART_S" bash -c "set -uo pipefail; part_$part" > "$OUT/$part.log" 2>&1
    status=$?
    [ $status -eq 0 ] || code=1
    ended=$([ $status -eq 124 ] && echo "stopped after $PART_S s" || echo "exit $status")
    printf '%-9s %5d s  %s\n' "$part" $((SECONDS - start)) "$ended" >> "$OUT/summary.txt"
    finding "$part" | sed 's/^/          /' >> "$OUT/summary.txt"
done
pack_records
cat "$OUT/summary.txt"
exit $code
