#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 15
#
# Ranks that stop answering: one that is stopped ends the run with code 9 soon after parallel.deadline, and the message names it, as it
# does one that is killed; pauses below the deadline change nothing. A command that fails on one rank ends the run with code 10. SIGTERM to one rank and a file STOP end all ranks at the same step, saved, with code 75.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
need_shim

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 1000000}}
JSON
# begin RUN ARGUMENT...: starts two ranks in the background and waits until they make steps; sets $launcher and $rank[0..1].
begin() {
    local run=$1 try
    shift
    rm -rf "$run"
    "${mpi[@]}" 2 "$CLTRAIN" train small.json --out "$run" "$@" >"$out" 2>&1 &
    launcher=$!
    for try in $(seq 600); do [ "$(grep -c '"update":' "$run/metrics.jsonl" 2>/dev/null)" -gt 10 ] 2>/dev/null && break || sleep 0.1; done
    [ "$try" -lt 600 ] || fail "$run made no steps"
    rank=()
    local process
    for process in $(pgrep -P $launcher); do
        rank[$(tr '\0' '\n' <"/proc/$process/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')]=$process
    done
}
# ended CODE SECONDS: the launcher has ended with this code, at most so many seconds from now. $seconds: how long it took.
ended() {
    local from=${EPOCHREALTIME/./} got
    for _ in $(seq $(($2 * 20))); do kill -0 $launcher 2>/dev/null && sleep 0.05 || break; done
    kill -9 $launcher 2>/dev/null && fail "the ranks are still there after $2 s"
    wait $launcher
    got=$?
    seconds=$(((${EPOCHREALTIME/./} - from) / 1000)) && seconds="$((seconds / 1000)).$(printf %03d $((seconds % 1000))) s"
    if [ $got -eq "$1" ]; then pass; else fail "code $got, expected $1"; fi
}

# Rank 1 stands still; rank 0 says so and ends the job.
begin stopped parallel.deadline=2
kill -STOP "${rank[1]}"
ended 9 60
echo "stopped rank, deadline 2 s: ended after $seconds"
expect_text '\[rank 0 .*\] cltrain: communication error.*no answer from rank 1' 'during step [0-9]+ \(.*; it may take 2 s \(parallel.deadline\)'

# The same where MPI's own all-reduce sums the gradients.
begin native parallel.deadline=2 parallel.allreduce=native parallel.deterministic=false
kill -STOP "${rank[1]}"
ended 9 60
echo "stopped rank, sums by MPI: ended after $seconds"
expect_text '\[rank 0 .*\] cltrain: communication error.*no answer from rank 1'
expect_awk 'sums went by MPI' '/"event":"start"/ && /"allreduce":"native"/ { n++ } END { exit n != 1 }' native/metrics.jsonl

# Rank 1 is killed: before mpirun ends it, rank 0 says so. The code is mpirun's.
begin killed
kill -9 "${rank[1]}"
ended 137 60
echo "killed rank: ended after $seconds"
# Open MPI 5 (prterun) may be quicker than rank 0.
expect_text '\[rank 0 .*\] cltrain: communication error.*the process of rank 1 has ended|prterun noticed' 'noticed that process rank 1 with PID'

# A command of the backward pass fails on rank 0 (driver_shim.c) when sums of its step are posted already, and these end only while or
# after rank 0 reports it, because rank 1 is late.
cat >failing.sh <<'RANK'
case $OMPI_COMM_WORLD_RANK in
0) export CLT_SHIM='launch:kernel=colsum:event:from=20' ;;
1) export CLT_SHIM="launch:kernel=cross_entropy_bwd:idle=$LATE:from=8" ;;
esac
LD_PRELOAD=$SHIM exec "$@"
RANK
export SHIM=$shim LATE
for LATE in 300000 20000; do
    rm -rf failing
    expect_code 10 "${mpi[@]}" 2 bash failing.sh "$CLTRAIN" train small.json --out failing data.global_batch=16 train.steps=60
    expect_text "\[rank 0 .*\] cltrain: device lost: step [0-9]+.*accepted command 'out\+loss.backward'"
    reject_text 'Signal:|signal [0-9]|Segmentation|AddressSanitizer'
done

# Pauses that are shorter than the deadline; as NAME_all a soak of thousands of steps.
begin paused parallel.deadline=60
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${rank[0]}/status"; } # KiB of rank 0
files() { find "/proc/${rank[0]}/fd" | wc -l; }
memory=$(resident) open=$(files)
for _ in $(seq "$(all_cases && echo 60 || echo 4)"); do
    victim=${rank[$((RANDOM % 2))]}
    kill -STOP "$victim"
    sleep 0.$((RANDOM % 5 + 1))
    kill -CONT "$victim"
done
sleep 0.3
grown=$(($(resident) - memory)) opened=$(($(files) - open))
if [ "$grown" -lt 16384 ] && [ "$opened" -le 2 ]; then pass; else fail "rank 0 has grown by $grown KiB and $opened files"; fi
touch paused/STOP
ended 75 60
expect_text 'stopped after step [0-9]+ of 1000000; saved in paused/checkpoints/step_'
steps=$(grep -c '"loss"' paused/metrics.jsonl)
echo "pauses: $steps steps, rank 0 grew by $grown KiB"
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train small.json --out even --max-steps "$steps"
expect_same paused/checkpoints/step_"$steps"/model.safetensors even/checkpoints/step_"$steps"/model.safetensors

# A signal to one rank, which need not be the one that saves.
begin told parallel.deadline=60
kill -TERM "${rank[1]}"
ended 75 60
last=$(tail -n 1 told/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
expect_text "stopped after step $last of 1000000; saved in told/checkpoints/step_$last"
expect_file "told/checkpoints/step_$last/model.safetensors"
finish
