#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 25
#
# Ranks killed (SIGKILL) at random moments of a run that evaluates and saves all the time, and during its start: the job ends at once,
# launch names the rank and starts again, and the run computes what one does that was left alone. 3 kills; as NAME_all 20.
# KILLS=N and SEED=N in the environment change that.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
export OMPI_MCA_mpi_yield_when_idle=1
kills=${KILLS:-$(all_cases && echo 20 || echo 3)}
RANDOM=${SEED:-$$}
echo "seed ${SEED:-$$}"

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16], "dropout": 0.1}, "optimizer": {"type": "adamw", "learning_rate": 0.0001},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 1000000, "eval_every": 40}, "checkpoint": {"every": 100}}
JSON
ranks() { # processes of the ranks
    local launcher_of_ranks
    launcher_of_ranks=$(pgrep -P $launcher -x 'mpirun|orterun') && pgrep -P "$launcher_of_ranks" -x "$(basename "$CLTRAIN")"
}
restarts() { grep -c 'cltrain launch: .*restart' "$1.out"; }
now() { echo $((${EPOCHREALTIME/./} / 1000)); } # milliseconds
# kill_one RUN: kills a rank; $took: milliseconds until launch says so.
kill_one() {
    local before from victim='' try
    before=$(restarts "$1")
    for try in $(seq 200); do
        victim=$(ranks | shuf -n 1)
        [ -n "$victim" ] && break || sleep 0.05
    done
    [ -n "$victim" ] && kill -9 "$victim" || { fail "there was no rank to kill ($try)"; return; }
    from=$(now)
    for _ in $(seq 3000); do [ "$(restarts "$1")" -gt "$before" ] && break || sleep 0.01; done
    took=$(($(now) - from))
    if [ "$(restarts "$1")" -gt "$before" ]; then pass; else fail "the job went on for $took ms after a rank was killed"; fi
}
newest() { find "$1/checkpoints" -maxdepth 1 -name 'step_[0-9]*' -printf '%f\n' 2>/dev/null | sed 's/step_//;/[^0-9]/d' | sort -n | tail -n 1; }

setsid "$CLTRAIN" launch --devices 2 --max-restarts 1000 small.json --out killed >killed.out 2>&1 &
launcher=$!
times=()
for _ in $(seq "$kills"); do
    reached=$(newest killed)
    for _ in $(seq 1200); do [ "$(newest killed)" -gt "${reached:-0}" ] 2>/dev/null && break || sleep 0.05; done
    sleep "0.$((RANDOM % 90 + 10))"
    kill_one killed
    times+=("$took")
done
reached=$(newest killed)
for _ in $(seq 1200); do [ "$(newest killed)" -gt "${reached:-0}" ] 2>/dev/null && break || sleep 0.05; done
kill -TERM $launcher
wait $launcher
code=$?
cp killed.out "$out"
if [ $code -eq 75 ]; then pass; else fail "code $code instead of 75"; fi
if [ "$(restarts killed)" -eq "$kills" ]; then pass; else fail "$(restarts killed) restarts after $kills kills"; fi
expect_text 'cltrain launch: rank [01] on [^ ]+ was ended by signal 9 \(Killed\); restart 1 of 1000, from step [0-9]+'
echo "milliseconds from the kill to the end of the job: ${times[*]}"
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out" | tail -n 1)
expect_code 0 "$CLTRAIN" launch --devices 2 small.json --out alone --max-steps "$last"
expect_same "alone/checkpoints/step_$last/model.safetensors" "killed/checkpoints/step_$last/model.safetensors"
expect_same <(values eval_loss alone/metrics.jsonl | head -n $((last / 40))) <(values eval_loss killed/metrics.jsonl | head -n $((last / 40)))
expect_same <(values loss alone/metrics.jsonl) <(values loss killed/metrics.jsonl)

# During the start: nothing is there to go on from, so it begins again.
for _ in $(seq $(((kills + 3) / 4))); do
    rm -rf start
    setsid "$CLTRAIN" launch --devices 2 small.json --out start >start.out 2>&1 &
    launcher=$!
    for _ in $(seq 200); do [ -n "$(ranks)" ] && break || sleep 0.02; done
    sleep "0.$(printf %02d $((RANDOM % 60)))"
    kill_one start
    for _ in $(seq 1200); do grep -q '"update":' start/metrics.jsonl 2>/dev/null && break || sleep 0.05; done
    kill -TERM $launcher
    wait $launcher
    code=$?
    cp start.out "$out"
    if [ $code -eq 75 ]; then pass; else fail "code $code instead of 75 after a kill during the start"; fi
    expect_text 'was ended by signal 9 .*; restart 1 of 3'
done
finish
