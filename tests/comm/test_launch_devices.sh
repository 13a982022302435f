#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 20
# ctest-optimise: no
#
# A host that loses GPUs (CPU devices that say so): cltrain launch starts with four ranks, and again with
# three and with one. The losses of all steps equal those of one undisturbed rank, so every sample was seen
# once.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
gpus=$CLTRAIN_BUILD_DIR/tests/gpu_shim.so
[ -f "$gpus" ] || skip_all 'gpu_shim was not built'
export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 OMPI_MCA_mpi_yield_when_idle=1
export POCL_DEVICES='pthread pthread pthread pthread' CLT_GPU_ADDRESSES=0000:01:00.0,0000:02:00.0,0000:03:00.0,0000:04:00.0
export CLT_GPU_COUNT=$work/count
own_cache "$work/cache"
echo 4 >count
LD_PRELOAD=$gpus "$CLTRAIN" devices >"$out" 2>&1
[ "$(grep -c '^[0-9]*:[0-3] *gpu' "$out")" -eq 4 ] || skip_all 'there are no four devices (PoCL)'

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]}, "optimizer": {"type": "adamw", "learning_rate": 0.0001},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "noise": 1.0, "micro_batch": 4, "global_batch": 48},
 "train": {"steps": 1000000, "eval_every": 0}, "checkpoint": {"every": 50}}
JSON
# lose N RESTART: waits for a new checkpoint, removes all devices but N, kills a rank, and waits for that
# restart.
lose() {
    local process
    await_from $launcher saved_after run "$(newest run)"
    echo "$1" >count
    process=$(pgrep -P "$(pgrep -P $launcher -x 'mpirun|orterun|prterun')" -x "$(basename "$CLTRAIN")" | shuf -n 1)
    kill -9 "$process" || fail "there was no rank to kill"
    await_from $launcher says run.out 'cltrain launch: .*restart' "$2"
}
LD_PRELOAD=$gpus setsid "$CLTRAIN" launch small.json --out run >run.out 2>&1 &
launcher=$!
lose 3 1
lose 1 2
await_from $launcher steps_since run "$EPOCHREALTIME"
kill -TERM $launcher
ended 75 run.out
expect_text '^ranks +4 over ' '^ranks +3 over ' 'restart 1 of 3, from step [0-9]+0' 'restart 2 of 3, from step [0-9]+0' \
    'stopped after step [0-9]+ of 1000000'
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
expect_awk 'one rank in the end' '/^batch/ { last = $0 } END { exit last !~ /12 times 4 one after the other/ }' "$out"

expect_code 0 env LD_PRELOAD="$gpus" "$CLTRAIN" train small.json --max-steps "$last" --out alone
losses() { sed -n -E 's/.*"step":([0-9]+),.*"loss":([^,]*),.*/\1 \2/p' "$1/metrics.jsonl"; }
losses run >run.losses
losses alone >alone.losses
expect_awk 'every step once, with the same loss' 'NR == FNR { loss[$1] = $2; n++; next }
    { d = $2 - loss[$1]; if (d < 0) d = -d; if (seen[$1]++ || !($1 in loss) || d > 1e-4) { print "step " $1 ": " $2 " and " loss[$1]; exit 1 } }
    END { if (n != '"$last"' || FNR != n) exit 1 }' alone.losses run.losses
finish
