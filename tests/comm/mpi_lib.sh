# SPDX-License-Identifier: Apache-2.0
#
# What the scripts that start ranks with mpirun share, in addition to ../e2e/lib.sh: skipping the test if there is no MPI, the
# beginning of a command, "${mpi[@]}" RANKS COMMAND..., and waiting for what runs in the background do. Sourced, never run.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

command -v mpirun >/dev/null || skip_all "mpirun is not installed (package openmpi-bin)"
[ -f "${CLTRAIN_MODULE_DIR:?}/cltrain_comm_mpi.so" ] || skip_all "the MPI module was not built (CLTRAIN_MPI=OFF)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI's plug-ins leak and replace the signal stack of AddressSanitizer: see test_comm_mpi.sh.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:use_sigaltstack=0
# Waiting ranks leave their core to others, since tests run at the same time.
# shellcheck disable=SC2034 # used by the scripts
mpi=(mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np)
# A limit of cltrain's that a test waits for is multiplied by this factor for slow machines.
# shellcheck disable=SC2034
patience=${CLTRAIN_TEST_PATIENCE:-1}

# write_text: a text to learn from, in the file `text`
write_text() { awk 'BEGIN { for (i = 0; i < 400; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text; }

# write_gpt LAYERS CHANNELS MICRO_BATCH STEPS [SECTIONS]: a language model of that text as gpt.json, evaluated and saved twice; SECTIONS: more of it
write_gpt() {
    write_text
    cat >gpt.json <<JSON
{"model": {"type": "gpt", "layers": $1, "heads": 3, "channels": $2, "context": 19}, ${5:-}
 "data": {"type": "text", "path": "text", "micro_batch": $3, "global_batch": 12},
 "train": {"steps": $4, "eval_every": $(($4 / 2))}, "checkpoint": {"every": $(($4 / 2))}}
JSON
}

# --- runs in the background; $launcher is the process that starts their ranks ---
# ended CODE [FILE]: the launcher ends with this code. FILE has its output, which is the last output from here on.
ended() {
    local got
    await_end "$launcher" || kill -9 "$launcher"
    wait "$launcher"
    got=$?
    [ $# -lt 2 ] || cp "$2" "$out"
    if [ $got -eq "$1" ]; then pass; else fail "code $got, expected $1"; fi
}
# says FILE PATTERN [N]: whether the file has N lines (1) that match.
says() { [ "$(grep -c -E -- "$2" "$1" 2>/dev/null)" -ge "${3:-1}" ]; }
# newest RUN: the step of its newest checkpoint; 0: it has none.
newest() {
    local steps
    steps=$(find "$1/checkpoints" -maxdepth 1 -name 'step_[0-9]*' -printf '%f\n' 2>/dev/null | sed 's/step_//;/[^0-9]/d' | sort -n | tail -n 1)
    echo "${steps:-0}"
}
saved_after() { [ "$(newest "$1")" -gt "$2" ]; } # RUN STEP: it has a checkpoint of a later step
# steps_since RUN MOMENT: it has made a step after that moment, an $EPOCHREALTIME.
steps_since() { tail -n 5 "$1/metrics.jsonl" | grep '"update":.*}$' | sed 's/.*"time"://' | awk -v since="$2" '$1 + 0 > since + 0 { new = 1 } END { exit !new }'; }
# lose_rank PID...: kills one of these ranks. The others are stopped, so that mpirun is the one that
# notices, and names it.
lose_rank() {
    local victim process
    victim=$(shuf -n 1 -e "$@")
    for process in "$@"; do [ "$process" = "$victim" ] || kill -STOP "$process"; done
    kill -9 "$victim" || fail "there was no rank to kill: '$*'"
}
