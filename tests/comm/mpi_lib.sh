# SPDX-License-Identifier: Apache-2.0
#
# What the scripts that start ranks with mpirun share, in addition to ../e2e/lib.sh: skipping the test if there is no MPI, and the
# beginning of a command, "${mpi[@]}" RANKS COMMAND... Sourced, never run. It knows nothing of what the ranks do.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

command -v mpirun >/dev/null || skip_all "mpirun is not installed (package openmpi-bin)"
[ -f "${CLTRAIN_MODULE_DIR:?}/cltrain_comm_mpi.so" ] || skip_all "the MPI module was not built (CLTRAIN_MPI=OFF)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI's plug-ins leak and replace the signal stack of AddressSanitizer: see test_comm_mpi.sh.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:use_sigaltstack=0
# Ranks that wait leave their core to those that do not: tests run side by side.
# shellcheck disable=SC2034 # used by the scripts
mpi=(mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np)

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
