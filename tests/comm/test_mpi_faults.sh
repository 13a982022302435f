#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 15 ctest-optimise: no
#
# Ranks that stop answering: a stopped rank ends the run with code 9 after parallel.deadline, and the
# message names it, as it names a killed one; pauses below the deadline change nothing. A command that fails
# on one rank ends the run with code 10. SIGTERM to one rank and a file STOP end all ranks at the same step,
# saved, with code 75.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
need_shim

net mlp data.global_batch=32 train.steps=1000000 >small.json
cat >rank.sh <<'RANK'
exec "$@" 2>"errors.$OMPI_COMM_WORLD_RANK"
RANK
# begin RUN ARGUMENT...: starts two ranks in the background and waits until they make steps; sets $launcher
# and $rank[0..1]. $through: the command that starts the ranks
through=()
begin() {
    local run=$1
    shift
    rm -rf "$run"
    "${mpi[@]}" 2 "${through[@]}" "$CLTRAIN" train small.json --out "$run" "$@" >"$out" 2>&1 &
    launcher=$!
    await_from $launcher has_updates "$run" 11
    rank=()
    local process
    for process in $(pgrep -P $launcher); do
        rank[$(tr '\0' '\n' <"/proc/$process/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')]=$process
    done
}

# Rank 1 is stopped; rank 0 reports it and ends the job. A step takes a thousandth of this deadline.
deadline=$((5 * patience))
begin stopped parallel.deadline=$deadline
kill -STOP "${rank[1]}"
ended 9
expect_text '\[rank 0 .*\] cltrain: communication error.*no answer from rank 1' \
    "during step [0-9]+ \\(.*; the limit is $deadline s \\(parallel.deadline\\)"

# The same if MPI's own all-reduce sums the gradients.
begin native parallel.deadline=$deadline parallel.allreduce=native parallel.deterministic=false
kill -STOP "${rank[1]}"
ended 9
expect_text '\[rank 0 .*\] cltrain: communication error.*no answer from rank 1' "the limit is $deadline s \\(parallel.deadline\\)"
expect_awk 'sums went by MPI' '/"event":"start"/ && /"allreduce":"native"/ { n++ } END { exit n != 1 }' native/metrics.jsonl

# Rank 1 is killed, and rank 0's own deadline is too long to matter: rank 0 reports the kill, in a file,
# while mpirun is stopped and cannot end it.
through=(bash rank.sh)
begin killed parallel.deadline=1000000 parallel.start_deadline=1000000
through=()
kill -STOP $launcher
kill -9 "${rank[1]}"
await_from "${rank[0]}" says errors.0 '\[rank 0 .*\] cltrain: communication error.*the process of rank 1 has ended' && pass
kill -CONT $launcher
await_end $launcher
wait $launcher
code=$?
if [ $code -eq 137 ] || [ $code -eq 9 ]; then pass; else fail "code $code, expected that of a killed process or of rank 0"; fi
# If rank 0 is stopped, mpirun notices it, and ends with its own code.
begin killed
kill -STOP "${rank[0]}"
kill -9 "${rank[1]}"
ended 137
expect_text 'noticed that process rank 1 with PID'

# A command of the backward pass fails on rank 0 (driver_shim.c) after sums of its step have been posted.
# These sums end only while or after rank 0 reports the failure, because rank 1 is late.
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

# Pauses that are shorter than the deadline, among hundreds of steps; as NAME_all a soak of thousands.
begin paused parallel.deadline=1000000
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${rank[0]}/status"; } # KiB of rank 0
files() { find "/proc/${rank[0]}/fd" | wc -l; }
memory=$(resident) open=$(files)
for _ in $(seq "$(all_cases && echo 60 || echo 4)"); do
    victim=${rank[$((RANDOM % 2))]}
    kill -STOP "$victim"
    sleep 0.$((RANDOM % 5 + 1))
    kill -CONT "$victim"
    steps=$(grep -c '"update":' paused/metrics.jsonl)
    await_from $launcher has_updates paused $((steps + 100))
done
grown=$(($(resident) - memory)) opened=$(($(files) - open))
if [ "$grown" -lt 16384 ] && [ "$opened" -le 2 ]; then pass; else fail "rank 0 has grown by $grown KiB and $opened files"; fi
touch paused/STOP
ended 75
expect_text 'stopped after step [0-9]+ of 1000000; saved in paused/checkpoints/step_'
steps=$(grep -c '"loss"' paused/metrics.jsonl)
echo "pauses: $steps steps, rank 0 grew by $grown KiB"
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train small.json --out even --max-steps "$steps"
expect_same paused/checkpoints/step_"$steps"/model.safetensors even/checkpoints/step_"$steps"/model.safetensors

# A signal to one rank, which need not be the one that saves.
begin told parallel.deadline=1000000
kill -TERM "${rank[1]}"
ended 75
last=$(tail -n 1 told/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
expect_text "stopped after step $last of 1000000; saved in told/checkpoints/step_$last"
expect_file "told/checkpoints/step_$last/model.safetensors"
finish
