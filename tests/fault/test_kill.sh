#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# kill -9 at random moments of a run that saves every 5 steps and does not end by itself, resumed each time.
# Every checkpoint loads, no more is lost than the save in flight and the steps after it, and the run
# arrives at the same bits as an uninterrupted run. CLTRAIN_KILLS: number of kills (10); test_kill_many.sh
# does 50. CLTRAIN_SEED repeats the same moments, as far as possible.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

kills=${CLTRAIN_KILLS:-10}
RANDOM=${CLTRAIN_SEED:=$(($$ * 7 + $(date +%s) % 30000))}
echo "CLTRAIN_SEED=$CLTRAIN_SEED"
every=5
# Parameters and moments of some hundred kilobytes: a save lasts about as long as the steps between two of them.
cat >net.json <<JSON
{"model": {"type": "mlp", "hidden": [160, 160], "dropout": 0.1},
 "data": {"type": "synthetic", "samples": 1000, "shape": [20], "classes": 4, "noise": 1.0, "micro_batch": 4, "global_batch": 8},
 "optimizer": {"learning_rate": 0.001, "clip": 1}, "schedule": {"type": "cosine", "warmup": 2000},
 "train": {"steps": 1000000, "eval_every": 50, "eval_batches": 2, "log_every": 100000},
 "checkpoint": {"every": $every, "keep": 2, "major": 500, "best": true}}
JSON
lines() { if [ -f "$1" ]; then grep -c '"update":' "$1"; else echo 0; fi; } # of steps
last_step() { # of the whole lines of metrics.jsonl
    if [ -f run/metrics.jsonl ]; then sed -n 's/^{"step":\([0-9]*\),"update.*}$/\1/p' run/metrics.jsonl | tail -n 1; fi
}
pause() { sleep "0.$(printf '%03d' $((RANDOM % $1)))"; } # below so many ms
# cut_or_longer LINES: whether the run has cut its metrics or written to them since they had LINES lines.
cut_or_longer() { [ "$(lines run/metrics.jsonl)" -ne "$1" ]; }
longer() { [ "$(lines run/metrics.jsonl)" -ge "$1" ]; }
saving() { compgen -G 'run/checkpoints/*.tmp-*'; } # a checkpoint is being written or deleted
stands() { ! grep -v '^State:[[:space:]]*[TZ]' <(sed -n '/^State:/p' /proc/$process/task/*/status); } # all of its threads do
# stop_in_save: stops the process in the middle of a save.
stop_in_save() {
    while kill -STOP $process 2>/dev/null; do
        await_from $process stands || return
        saving >/dev/null && return
        kill -CONT $process
        pause 5
    done
}

in_save=0
in_start=0
reached=0 # metrics said this step before the last kill
for ((kill = 1; kill <= kills; kill++)); do
    "$CLTRAIN" train net.json --out run --resume auto >run.out 2>&1 &
    process=$!
    if [ $((kill % 5)) -eq 3 ]; then # somewhere in the start: opening, loading, cutting the metrics
        pause 500
    else # some steps after the first new one
        await_from $process cut_or_longer "$(lines run/metrics.jsonl)"
        await_from $process longer $(($(lines run/metrics.jsonl) + RANDOM % 50))
        pause 15
    fi
    [ $((kill % 5)) -ne 0 ] || stop_in_save
    kill -9 $process 2>/dev/null
    wait $process 2>/dev/null
    code=$?
    cp run.out "$out"
    if [ $code -eq 137 ]; then pass; else fail "kill $kill: the run had ended with code $code"; fi
    reject_text 'is skipped' 'cltrain:'
    from=$(sed -n 's/^resumed from .* at step \([0-9]*\)$/\1/p' "$out")
    if [ -n "$from" ]; then # at most the save in flight and what came after it was lost
        if [ "$from" -ge $((reached - 2 * every)) ]; then pass; else fail "kill $kill: resumed at step $from, it had been at $reached"; fi
        reached=$(last_step)
    elif grep -q '^step ' "$out"; then # steps from the start: nothing had been saved
        if [ "$reached" -le $((2 * every)) ]; then pass; else fail "kill $kill: started anew, it had been at step $reached"; fi
        reached=$(last_step)
    else
        in_start=$((in_start + 1))
    fi
    reached=${reached:-0}
    saving >/dev/null && in_save=$((in_save + 1))
done
echo "$kills kills: $in_save while a checkpoint was written or deleted, $in_start before the first step, step $reached reached"
if [ "$in_save" -ge $((kills / 5)) ]; then pass; else fail "$in_save kills fell into a save"; fi
steps=$((reached / 100 * 100 + 100)) # which has not been written yet
steps=$((steps > 100 * kills ? steps : 100 * kills))
expect_code 0 "$CLTRAIN" train net.json --out straight --max-steps $steps
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto --max-steps $steps
expect_text "^done: $steps steps"
reject_text 'is skipped'
for file in model.safetensors optimizer.safetensors state.json; do
    expect_same straight/checkpoints/step_$steps/$file run/checkpoints/step_$steps/$file
done
expect_same <(numbers straight) <(numbers run)
expect_same <(ls straight/checkpoints) <(ls run/checkpoints)
finish
