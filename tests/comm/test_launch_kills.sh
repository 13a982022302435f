#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 25 ctest-optimise: no
#
# Ranks killed (SIGKILL) at random moments of a run that evaluates and saves all the time, and during its
# start: the job ends at once, launch names the rank and starts again, and the run computes the same as an
# undisturbed one. The ranks' own deadlines are too long to matter, so that only the notice of a kill ends a
# job. 3 kills; as NAME_all 20. KILLS=N and SEED=N in the environment change that.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
export OMPI_MCA_mpi_yield_when_idle=1
kills=${KILLS:-$(all_cases && echo 20 || echo 3)}
RANDOM=${SEED:-$$}
echo "seed ${SEED:-$$}"

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16], "dropout": 0.1}, "optimizer": {"type": "adamw", "learning_rate": 0.0001},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "parallel": {"deadline": 1000000, "start_deadline": 1000000},
 "train": {"steps": 1000000, "eval_every": 40}, "checkpoint": {"every": 100}}
JSON
ranks() { # processes of the ranks
    local launcher_of_ranks
    launcher_of_ranks=$(pgrep -P $launcher -x 'mpirun|orterun') && pgrep -P "$launcher_of_ranks" -x "$(basename "$CLTRAIN")"
}
restart='cltrain launch: .*restart'
restarts() { grep -c "$restart" "$1.out"; }
# named RUN: checks that each restart names the killed rank; if the other rank was faster than mpirun, it
# has named it.
named() {
    local by_launch by_rank
    by_launch=$(grep -c -E 'cltrain launch: rank [01] on [^ ]+ was ended by signal 9 \(Killed\); restart' "$1.out")
    by_rank=$(grep -c 'the job ended with code 9; restart' "$1.out")
    if [ $((by_launch + by_rank)) -eq "$(restarts "$1")" ] && says "$1.out" 'the process of rank [01] has ended' "$by_rank"; then pass; else
        fail "a restart does not name its cause: $by_launch by launch, $by_rank by a rank, $(restarts "$1") in all"
    fi
}
now() { echo $((${EPOCHREALTIME/./} / 1000)); } # milliseconds
# kill_one RUN: kills a rank; sets $took to the milliseconds until launch reports it.
kill_one() {
    local before from
    before=$(restarts "$1")
    await_from $launcher ranks
    kill -9 "$(ranks | shuf -n 1)" || { fail 'there was no rank to kill'; return; }
    from=$(now)
    await_from $launcher says "$1.out" "$restart" $((before + 1)) && pass
    took=$(($(now) - from))
}

setsid "$CLTRAIN" launch --devices 2 --max-restarts 1000 small.json --out killed >killed.out 2>&1 &
launcher=$!
times=()
for _ in $(seq "$kills"); do
    await_from $launcher saved_after killed "$(newest killed)"
    sleep "0.$((RANDOM % 90 + 10))"
    kill_one killed
    times+=("$took")
done
await_from $launcher saved_after killed "$(newest killed)"
kill -TERM $launcher
ended 75 killed.out
if [ "$(restarts killed)" -eq "$kills" ]; then pass; else fail "$(restarts killed) restarts after $kills kills"; fi
expect_text 'restart 1 of 1000, from step [0-9]+'
named killed
echo "milliseconds from the kill to the end of the job: ${times[*]}"
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out" | tail -n 1)
expect_code 0 "$CLTRAIN" launch --devices 2 small.json --out alone --max-steps "$last"
expect_same "alone/checkpoints/step_$last/model.safetensors" "killed/checkpoints/step_$last/model.safetensors"
expect_same <(values eval_loss alone/metrics.jsonl | head -n $((last / 40))) <(values eval_loss killed/metrics.jsonl | head -n $((last / 40)))
expect_same <(values loss alone/metrics.jsonl) <(values loss killed/metrics.jsonl)

# During the start there is no checkpoint to resume from, so the run begins again.
for _ in $(seq $(((kills + 3) / 4))); do
    rm -rf start
    setsid "$CLTRAIN" launch --devices 2 small.json --out start >start.out 2>&1 &
    launcher=$!
    await_from $launcher ranks
    sleep "0.$(printf %02d $((RANDOM % 60)))"
    kill_one start
    await_from $launcher steps_since start "$EPOCHREALTIME"
    kill -TERM $launcher
    ended 75 start.out
    expect_text 'restart 1 of 3'
    named start
done
finish
