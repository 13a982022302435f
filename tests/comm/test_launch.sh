#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 25
#
# cltrain launch: starts the ranks, goes on from the newest checkpoint when one is killed, ends in an orderly way when it is told to, and
# gives up when a restart achieves nothing. A run goes on with other numbers of ranks.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM # launch allows it where it is needed
export OMPI_MCA_mpi_yield_when_idle=1

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]}, "optimizer": {"type": "adamw", "learning_rate": 0.0001},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 1000000}, "checkpoint": {"every": 300}}
JSON
# begin RUN ARGUMENT...: launches in the background; the output goes to RUN.out. $launcher is its process.
begin() {
    local run=$1
    shift
    setsid "$CLTRAIN" launch --out "$run" "$@" >"$run.out" 2>&1 &
    launcher=$!
}
await() { # PATH: until it is there
    for _ in $(seq 1200); do [ -e "$1" ] && return || sleep 0.05; done
    fail "$1 did not appear"
}
ended() { # CODE RUN: the launcher ends with this code
    local got
    for _ in $(seq 1200); do kill -0 $launcher 2>/dev/null && sleep 0.05 || break; done
    kill -9 $launcher 2>/dev/null && fail "launch is still there after a minute"
    wait $launcher
    got=$?
    cp "$2.out" "$out"
    if [ $got -eq "$1" ]; then pass; else fail "code $got, expected $1"; fi
}
ranks() { pgrep -P "$(pgrep -P $launcher | head -n 1)"; } # processes of the ranks

# A rank is killed: the job starts again, and computes what one does that was left alone.
begin killed --devices 2 small.json
await killed/checkpoints/step_300
kill -9 "$(ranks | shuf -n 1)"
for _ in $(seq 1200); do grep -q 'resumed from' killed.out && break || sleep 0.05; done
sleep 0.5
touch killed/STOP
ended 75 killed
expect_text 'cltrain launch: rank [01] on .* was ended by signal 9 \(Killed\); restart 1 of 3, from step [0-9]+00' \
    'stopped by a file STOP in the run folder'
reject_text 'noticed that process rank' 'Per user-direction' 'restart 2'
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
expect_code 0 "$CLTRAIN" launch --devices 2 small.json --out alone --max-steps "$last"
expect_text '^ranks +2 over ' "^done: $last steps" 'launch --devices 2 --resume alone'
expect_same "alone/checkpoints/step_$last/model.safetensors" "killed/checkpoints/step_$last/model.safetensors"

# A signal to launch: all ranks save, and it does not start again. The run goes on with other numbers of ranks.
begin told --devices 4 small.json checkpoint.every=0
for _ in $(seq 600); do grep -q '"update":' told/metrics.jsonl 2>/dev/null && break || sleep 0.1; done
kill -TERM $launcher
ended 75 told
expect_text 'stopped after step [0-9]+ of 1000000; saved in told/checkpoints/step_' 'the run can go on from its newest checkpoint'
reject_text 'restart'
expect_absent told/lock
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
expect_code 0 "$CLTRAIN" launch --devices 2 --resume told --max-steps $((last + 10))
expect_code 0 "$CLTRAIN" launch --devices 1 --resume told --max-steps $((last + 20))
expect_text "^done: $((last + 20)) steps"

# Another run is gone on with in a new folder, and a rank is killed before that has a checkpoint: the restart begins there once more.
longer=(--devices 2 small.json --resume told --max-steps $((last + 20000)) checkpoint.every=0 data.global_batch=32)
expect_code 0 "$CLTRAIN" launch "${longer[@]}" --out straight
begin again "${longer[@]}"
for _ in $(seq 6000); do grep -q '"update":' again/metrics.jsonl 2>/dev/null && break || sleep 0.01; done
kill -9 "$(ranks | shuf -n 1)"
ended 0 again
expect_text 'restart 1 of 3' "resumed from told/checkpoints/step_$((last + 20)) at step" "^done: $((last + 20000)) steps"
expect_same "again/checkpoints/step_$((last + 20000))/model.safetensors" "straight/checkpoints/step_$((last + 20000))/model.safetensors"

# Mistakes end it at once, before or after the ranks have started.
expect_code 2 "$CLTRAIN" launch --devices 2 small.json train.stps=3 --out never
expect_text "did you mean 'train.steps'"
expect_code 2 "$CLTRAIN" launch --devices 3 small.json data.micro_batch=16 --out never
expect_text 'too few for 3 ranks' 'the job ended with code 2'
reject_text 'restart'
expect_code 2 "$CLTRAIN" launch --devices some small.json --out never
expect_text "'some' is neither all nor a number"
expect_absent never

# Other launchers: none at all, which one rank does not need, and one that always fails.
mkdir empty bin
cat >bin/mpirun <<'SH'
#!/bin/sh
echo "$*" >>"$STARTS"
echo "[rank 0 here] a line of a rank" >&2
echo '--------------------------------------------------------------------------' >&2
printf 'prterun noticed that process rank 3 with PID 0 on node node7 exited on\nsignal 11 (Segmentation fault).\n' >&2 # as Open MPI 5 breaks it
echo '--------------------------------------------------------------------------' >&2
echo '--------------------------------------------------------------------------' >&2
echo 'something else that mpirun has to say' >&2
echo '--------------------------------------------------------------------------' >&2
exit 139
SH
chmod +x bin/mpirun
expect_code 2 env PATH="$work/empty" "$CLTRAIN" launch --devices 2 small.json --out never
expect_text "need Open MPI's mpirun, which is in no folder of PATH"
expect_code 0 env PATH="$work/empty" "$CLTRAIN" launch --devices 1 small.json --out single train.steps=20
expect_text '^done: 20 steps'
expect_code 9 env PATH="$work/bin:$PATH" STARTS="$work/starts" "$CLTRAIN" launch --devices 4 small.json --out never
expect_text 'rank 3 on node7 was ended by signal 11 .*; restart 1 of 3, from the beginning' \
    'giving up: since the last restart there is no newer checkpoint' 'a line of a rank' 'something else that mpirun has to say'
reject_text 'noticed that process' 'restart 2'
expect_awk 'two starts of four ranks, the second one resumed' \
    '$0 !~ /-np 4 .*--bind-to none.* train .*small.json/ || (NR == 2) != ($0 ~ /--resume auto/) { exit 1 } END { if (NR != 2) exit 1 }' starts
expect_code 9 env PATH="$work/bin:$PATH" STARTS="$work/starts" "$CLTRAIN" launch --devices 4 --max-restarts 0 small.json --out never
expect_text 'giving up after 0 restarts'
expect_absent never
finish
