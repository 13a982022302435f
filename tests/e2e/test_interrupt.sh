#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# A run that is interrupted by SIGTERM, SIGINT, SIGUSR2 and a file STOP one after the other and resumed each
# time: every part ends with code 75 and a checkpoint of its last step, and the final result is bitwise that
# of an uninterrupted run. Signals reach only the thread that handles them, whatever handlers a driver
# installs.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

steps=5000
cat >net.json <<JSON
{"model": {"type": "mlp", "hidden": [24, 24], "dropout": 0.1},
 "data": {"type": "synthetic", "samples": 1000, "shape": [16], "classes": 4, "noise": 1.0, "micro_batch": 32, "global_batch": 128},
 "optimizer": {"learning_rate": 0.001, "clip": 1}, "schedule": {"type": "cosine"},
 "train": {"steps": $steps, "eval_every": 400, "eval_batches": 4, "log_every": 1}, "checkpoint": {"every": 500, "best": true}}
JSON

# The interruptions: signals, and the file. Schedulers send SIGTERM more than once (to the launcher, and to
# each process).
interrupt() {
    case $1 in
    STOP) touch run/STOP ;;
    TERM) for _ in 1 2 3 4; do kill -TERM "$process"; done ;;
    *) kill "-$1" "$process" ;;
    esac
}

expect_code 0 "$CLTRAIN" train net.json --out straight
# The output of a part goes into a pipe. Until it is read, the run can make only some hundred further steps,
# so no part can end before it is interrupted.
mkfifo told
last=0
for way in STOP TERM INT USR2; do
    # SIGINT is ignored by background jobs of a script, so env resets it.
    env --default-signal=INT "$CLTRAIN" train net.json --out run --resume auto >told 2>&1 &
    process=$!
    exec 8<told
    heard=0
    : >run.out
    while [ $heard -lt 20 ] && IFS= read -r line <&8; do
        printf '%s\n' "$line" >>run.out
        case $line in 'step '*) heard=$((heard + 1)) ;; esac
    done
    expect_blocked "$process" INT TERM USR2
    interrupt $way
    if [ $way = STOP ]; then sleep 1.1; fi # the file is looked for once a second: then it is found at the next step
    cat <&8 >>run.out
    exec 8<&-
    wait $process
    code=$?
    cp run.out "$out"
    if [ $code -eq 75 ]; then pass; else fail "$way: code $code instead of 75"; fi
    [ $last -eq 0 ] || expect_text "^resumed from run/checkpoints/step_$last at step $last\$"
    now=$(tail -n 1 run/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
    if [ "$now" -gt "$last" ] && [ "$now" -lt $steps ]; then pass; else fail "$way: it went from step $last to step $now"; fi
    expect_text "stopped after step $now of $steps; saved in run/checkpoints/step_$now\$"
    expect_file "run/checkpoints/step_$now/manifest.json"
    expect_absent run/lock run/STOP
    last=$now
done
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto
expect_text "^resumed from run/checkpoints/step_$last at step $last\$" "^done: $steps steps"
for file in model.safetensors optimizer.safetensors state.json; do
    expect_same straight/checkpoints/step_$steps/$file run/checkpoints/step_$steps/$file
done
expect_same <(numbers straight) <(numbers run)
# The best checkpoint is the same, although another process found it.
best=$(sed -n 's/.*"best_step": *\([0-9]*\).*/\1/p' straight/checkpoints/step_$steps/state.json)
expect_same "straight/checkpoints/step_$best/model.safetensors" "run/checkpoints/step_$best/model.safetensors"
finish
