#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 15
#
# Two ranks with different drivers: PoCL, and the simulated H100 (tests/ptx/driver.h), in either order. They
# train together and stay as close to one rank on PoCL as the promise between devices requires, one warning
# names the difference, the update has the same bits on both, no rule of the simulated device is violated,
# and a checkpoint of two ranks resumes on one rank, and the reverse. The tests labelled `runtimes` do the
# same with Intel's runtime.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/losses_lib.sh"
own_cache "$work/cache.pocl"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"
# All cases: with the matrix units of an H100, whose self-tests take long here.
export CLTRAIN_PTX_PLAY=h100 CLTRAIN_PTX_SM=70
if all_cases; then export CLTRAIN_PTX_SM=90 CLTRAIN_PTX_LOCAL_90A=232448; fi
unset CLTRAIN_GEMM CLTRAIN_STYLE CLTRAIN_EMULATE

on_pocl=(env -u OCL_ICD_VENDORS -u OCL_ICD_FILENAMES "CLTRAIN_CACHE_DIR=$work/cache.pocl")
"${on_pocl[@]}" "$CLTRAIN" devices >devices 2>&1 || skip_all 'there is no OpenCL device beside the simulated one'
grep -q -E 'PoCL|Portable Computing' devices || skip_all 'the losses of this device were never compared with those of the simulated one'
write_text
cat >gpt.json <<JSON
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 32, "context": 16, "dropout": 0.1},
 "data": {"type": "text", "path": "$work/text", "micro_batch": 2, "global_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.1, "clip": 1},
 "train": {"steps": 20, "log_every": 1}, "checkpoint": {"every": 10, "keep": 0}, "device": {"tune": "off"}}
JSON
# rank.sh RANK COMMAND...: runs the command with PoCL if this is rank RANK, otherwise with the simulated
# H100
cat >rank.sh <<'RANK'
pocl=$1
shift
if [ "$OMPI_COMM_WORLD_RANK" = "$pocl" ]; then
    unset OCL_ICD_VENDORS OCL_ICD_FILENAMES
    CLTRAIN_CACHE_DIR=$CLTRAIN_CACHE_DIR.pocl
fi
exec "$@"
RANK
# together POCL OUT ARGUMENTS...: runs both ranks; rank POCL uses PoCL
together() {
    local pocl=$1 to=$2
    shift 2
    rm -f report
    expect_code 0 "${mpi[@]}" 2 env CLTRAIN_LOG=debug bash rank.sh "$pocl" "$CLTRAIN" train "$@" --out "$to"
    if [ -s report ]; then fail "$to: $(head -n 3 report)"; else pass; fi
    grep 'warning: ' "$out" | grep -v "goes without 'int64_atomics'" >warnings
    expect_awk "$to: one warning" '!/rank 0 .*warning: the ranks have different devices or drivers: rank 0 on .*; a step takes as long as on the slowest of them$/ { bad = 1 }
        END { exit bad || NR != 1 }' warnings
    for rank in 0 1; do # the update has the same order of sums, and rounds divisions and roots alike
        sed -n "s/.*\[rank $rank .*debug: program 'adam' (\(.*\)): [0-9.]* s.*/\1/p" "$out" |
            awk '{ exact = /correctly-rounded-divide-sqrt/; match($0, /-DWG=[0-9]*/); print exact + 0, (RLENGTH > 0 ? substr($0, RSTART, RLENGTH) : "-") }' |
            sort -u >update.$rank
    done
    expect_awk "$to: the update" '!/^1 / { bad = 1 } END { exit bad || NR == 0 }' update.0
    expect_same update.0 update.1
}
# near ONE MANY FIRST
near() {
    local worst
    if worst=$(apart "$1" "$2" "$3" "$(write_tolerances "$mode")"); then pass; else fail "$2: losses are $worst apart from those of $1"; fi
    echo "$2: losses at most $worst apart"
}
units() { sed -n 's/^device .*, \([0-9]*\) compute units\{0,1\}.*/\1/p' "$out"; }
for mode in f32 $(all_cases && echo f16 bf16); do
    set -- gpt.json precision.mode="$mode"
    expect_code 0 "${on_pocl[@]}" "$CLTRAIN" train "$@" --out "one.$mode"
    whole=$(units)
    for pocl in 0 $(all_cases && echo 1); do
        together "$pocl" "both.$mode.$pocl" "$@"
        # MPI did not load PoCL before the cores were divided, although its hwloc could have done so.
        half=$((whole / 2 > 0 ? whole / 2 : 1))
        [ "$pocl" = 1 ] || [ "$(units)" = "$half" ] || fail "PoCL's rank should have $half of $whole cores, not $(units)"
        near "one.$mode" "both.$mode.$pocl" 1
    done
    # The simulated device updates a share of the parameters, and PoCL all of them: with the same bits.
    together 0 "shares.$mode" "$@" parallel.shard=optimizer
    expect_text '^memory .* optimizer 128.0 KiB' # of 248.0
    for file in model optimizer; do
        expect_same "both.$mode.0/checkpoints/step_20/$file.safetensors" "shares.$mode/checkpoints/step_20/$file.safetensors"
    done
    expect_code 0 "${on_pocl[@]}" "$CLTRAIN" train "$@" --resume "both.$mode.0/checkpoints/step_10" --out "then_one.$mode"
    near "one.$mode" "then_one.$mode" 11
    together 1 "then_both.$mode" "$@" --resume "one.$mode/checkpoints/step_10"
    near "one.$mode" "then_both.$mode" 11
done
finish
