#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 13
#
# Nothing is lost by accident: a terminal that is closed, hangs or sends Ctrl-C, at any moment; checkpoints at time intervals;
# Ctrl-C is answered at once, also while kernels are built. Uses a real pseudo terminal.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
screen=$CLTRAIN_BUILD_DIR/tests/screen_of
[ -x "$screen" ] || skip_all 'screen_of was not built'
clean_home
export CLTRAIN_GEMM=simple # starts fastest
unset NO_COLOR CLICOLOR CLICOLOR_FORCE

cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32]},
 "data": {"type": "synthetic", "samples": 512, "shape": [8], "classes": 4, "micro_batch": 32},
 "optimizer": {"learning_rate": 0.01}, "train": {"steps": 2000000, "log_every": 100}}
JSON
# on_terminal CODE ARGUMENT...: runs cltrain under screen_of; what was on the screen is the output.
on_terminal() {
    local want=$1
    shift
    limit=60 expect_code "$want" "$screen" "$@"
}
event() { grep "^{\"event\":\"$2\"" "$1/metrics.jsonl"; } # RUN NAME
# kept RUN SIGNAL: the run was stopped by the signal and saved its last step.
kept() {
    local step
    step=$(event "$1" stopped | sed 's/.*"step":\([0-9]*\),.*/\1/')
    if event "$1" stopped | grep -q "\"reason\":\"$2\""; then pass; else fail "$1: no event says that $2 stopped it"; fi
    if event "$1" saved | grep -q "\"step\":$step,.*\"reason\":\"stop\""; then pass; else fail "$1: no event of the save at step $step"; fi
    expect_file "$1/checkpoints/step_$step/manifest.json"
    expect_absent "$1/lock"
}

# --- a closed terminal; a connection that hangs and accepts no output; nohup ---
on_terminal 75 -c 80 -w 'step 200/' -h "$CLTRAIN" train net.json --out gone
kept gone SIGHUP
on_terminal 75 -c 80 -w 'step 100/' -s 1500 -w 'step' -h "$CLTRAIN" train net.json --out hung train.log_every=1
kept hung SIGHUP
expect_awk 'the run stood still while the terminal took nothing' '
    /"update":/ { match($0, /"time":[0-9.]+/); t = substr($0, RSTART + 7, RLENGTH - 7); if (last && t - last > 1) stood = 1; last = t }
    END { exit stood || !last }' hung/metrics.jsonl
on_terminal 0 -c 80 -w 'step 1/' -h nohup "$CLTRAIN" train net.json train.steps=3000 --out nohup
expect_absent nohup.out/lock
env --default-signal=HUP "$CLTRAIN" train net.json --out hup >hup.out 2>&1 &
process=$!
for _ in $(seq 300); do grep -q '"update":' hup/metrics.jsonl 2>/dev/null && break || sleep 0.05; done
expect_blocked "$process" HUP INT TERM USR2
kill -HUP $process
wait $process
code=$?
if [ $code -eq 75 ]; then pass; else fail "SIGHUP: code $code instead of 75"; fi
kept hup SIGHUP
cp hup.out "$out"
expect_text '^finishing step [0-9]+, then saving$'

# --- Ctrl-C is answered at once, with the step after which the run ends ---
on_terminal 75 -c 80 -w 'step 300/' -k '\x03' "$CLTRAIN" train net.json --out key
kept key SIGINT
expect_text '^finishing step [0-9]+, then saving; Ctrl-C again ends without saving$'
said=$(sed -n 's/^finishing step \([0-9]*\),.*/\1/p' "$out")
expect_text "stopped after step $said of 2000000"
on_terminal 130 -c 80 -w 'step 1/' -k '\x03' -w 'again' -k '\x03' "$CLTRAIN" train net.json --out twice \
    'model.hidden=[1024,1024]' data.micro_batch=1024 data.global_batch=16384
expect_absent twice/checkpoints/step_1

# output that nobody reads any more blocks the run, but not a second Ctrl-C
mkfifo stuck.pipe
exec 8<>stuck.pipe # both ends are open, and nothing is read
env --default-signal=INT "$CLTRAIN" train net.json --out stuck train.log_every=1 >&8 2>/dev/null 8>&- &
process=$!
lines=-1
for _ in $(seq 300); do # until no line comes any more
    before=$lines
    lines=$(cat stuck/metrics.jsonl 2>/dev/null | wc -l)
    if [ "$lines" -gt 0 ] && [ "$lines" -eq "$before" ]; then break; else sleep 0.3; fi
done
kill -INT $process
sleep 0.5
kill -INT $process
for _ in $(seq 40); do kill -0 $process 2>/dev/null && sleep 0.05 || break; done
kill -KILL $process 2>/dev/null
wait $process
code=$?
exec 8>&-
if [ $code -eq 130 ]; then pass; else fail "a second Ctrl-C where the output is not read: code $code"; fi

# --- ... and before the first step: the run ends at once and leaves nothing ---
POCL_CACHE_DIR=$work/cold CLTRAIN_CACHE_DIR=$work/cold on_terminal 75 -c 80 -w 'building kernels' -k '\x03' "$CLTRAIN" train net.json \
    --out early
expect_text 'stopped before the first step; nothing was lost$'
reject_text '^step '
expect_absent early
# (The driver's own work cannot be interrupted, but the answer takes only milliseconds.)
POCL_CACHE_DIR=$work/cold2 CLTRAIN_CACHE_DIR=$work/cold2 env --default-signal=INT "$CLTRAIN" train net.json --out early >early.out 2>&1 &
process=$!
sleep 2
started=$(date +%s%N)
kill -INT $process
wait $process
code=$?
took=$((($(date +%s%N) - started) / 1000000))
cp early.out "$out"
if [ $code -eq 75 ] && [ $took -lt 1500 ]; then pass; else fail "interrupted after two seconds: code $code after $took ms"; fi
expect_absent early
for signal in TERM HUP USR2 INT; do
    env --default-signal=INT,HUP "$CLTRAIN" train net.json --out never/run >never.out 2>&1 &
    process=$!
    sleep 0.0$((RANDOM % 10))
    children=$(pgrep -P $process | tr '\n' ' ')
    kill -$signal $process
    wait $process
    code=$?
    cp never.out "$out"
    # It may have been too quick, or not yet have taken over its signals.
    if [ $code -eq 75 ] || [ $code -gt 128 ]; then pass; else fail "SIG$signal at the start: code $code"; fi
    [ -d never/run ] && { grep -q '"update":' never/run/metrics.jsonl || fail "SIG$signal at the start: a run folder without a step"; }
    rm -rf never
    for child in $children; do
        for _ in $(seq 50); do kill -0 "$child" 2>/dev/null && sleep 0.02 || break; done
        if kill -0 "$child" 2>/dev/null; then fail "SIG$signal at the start: a child process is left"; else pass; fi
    done
done

# --- checkpoints at time intervals: as many as expected, with the same result, also after the interval was changed ---
expect_code 0 "$CLTRAIN" train net.json train.steps=4000 --out plain
if event plain saved | grep -q '"reason":"time"'; then fail 'a short run saved by time'; else pass; fi
expect_code 0 "$CLTRAIN" train net.json train.steps=4000 --out clock checkpoint.minutes=0.002 --max-steps 2500
expect_code 0 "$CLTRAIN" train net.json train.steps=4000 --out clock checkpoint.minutes=0.001 --resume auto
if [ "$(event clock saved | grep -c '"reason":"time"')" -ge 2 ]; then pass; else fail 'no checkpoints by time'; fi
expect_same plain/checkpoints/step_4000/model.safetensors clock/checkpoints/step_4000/model.safetensors
expect_same plain/checkpoints/step_4000/optimizer.safetensors clock/checkpoints/step_4000/optimizer.safetensors
expect_same <(numbers plain) <(numbers clock | grep -v '"step":2500,"eval')
expect_code 0 "$CLTRAIN" train net.json train.steps=400 --out off checkpoint.minutes=0
if event off saved | grep -q '"reason":"time"'; then fail 'checkpoint.minutes=0 saves by time'; else pass; fi
finish
