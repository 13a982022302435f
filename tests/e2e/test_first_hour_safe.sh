#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 13 ctest-optimise: no
#
# Nothing is lost by accident: a terminal that is closed, hangs or sends Ctrl-C, at any moment; checkpoints
# at time intervals; Ctrl-C is answered immediately, also while kernels are built. Uses a real pseudo
# terminal. Where an answer must not wait for the driver, the driver's call never returns
# (fault/driver_shim.c).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
screen=$CLTRAIN_BUILD_DIR/tests/screen_of
[ -x "$screen" ] || skip_all 'screen_of was not built'
need_shim
clean_home
export CLTRAIN_GEMM=simple # starts fastest
unset NO_COLOR CLICOLOR CLICOLOR_FORCE

net mlp 'model.hidden=[32]' data.samples=512 data.classes=4 data.micro_batch=32 optimizer.learning_rate=0.01 train.steps=2000000 train.log_every=100 \
    >net.json
# on_terminal CODE ARGUMENT...: runs cltrain under screen_of; what was on the screen is the output.
on_terminal() {
    local want=$1
    shift
    expect_code "$want" "$screen" "$@"
}
# takes_signals PROCESS: no SIGINT is pending, because its thread for signals has taken all of them.
takes_signals() { [ $((0x$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$1/status") & 2)) -eq 0 ]; }
is_over() { is_gone "$1" || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; } # PROCESS, which is not ours
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
# While nothing is read the run makes five thousand steps with a line each, and a pseudo terminal has room
# for some hundred lines. Steps are written once a second; the count begins with the first time that this
# happens while nothing is read.
cat >goes_on <<'SH'
steps() { grep -c '"update":' hung/metrics.jsonl; }
from=$(steps)
while [ "$(steps)" -eq "$from" ]; do sleep 0.05; done
from=$(steps)
while [ "$(steps)" -lt $((from + 5000)) ]; do sleep 0.05; done
SH
on_terminal 75 -c 80 -w 'step 100/' -x 'sh goes_on' -w 'step' -h "$CLTRAIN" train net.json --out hung train.log_every=1
kept hung SIGHUP
on_terminal 0 -c 80 -w 'step 1/' -h nohup "$CLTRAIN" train net.json train.steps=3000 --out nohup
expect_absent nohup.out/lock
env --default-signal=HUP "$CLTRAIN" train net.json --out hup >hup.out 2>&1 &
process=$!
await_from $process has_updates hup
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
LD_PRELOAD=$shim CLT_SHIM="launch:kernel=update_adam:hang:nth=300;log=$work/calls" \
    on_terminal 130 -c 80 -w 'step 1/' -x 'until test -s calls; do sleep 0.05; done' -k '\x03' -w 'again' -k '\x03' \
    "$CLTRAIN" train net.json --out twice train.log_every=1000000
expect_absent twice/checkpoints

# output that is no longer read blocks the run, but not a second Ctrl-C
mkfifo stuck.pipe
exec 8<>stuck.pipe # both ends are open, and nothing is read
env --default-signal=INT "$CLTRAIN" train net.json --out stuck train.log_every=1 >&8 2>/dev/null 8>&- &
process=$!
is_full() { ! dd if=/dev/zero of=stuck.pipe oflag=nonblock bs=1 count=100; } # what it writes itself nobody reads either
await_from $process grep -q '"event":"start"' stuck/metrics.jsonl
await_from $process is_full # of lines about steps
kill -INT $process
await_from $process takes_signals $process
kill -INT $process
await_end $process || kill -KILL $process
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
# (The driver's own work cannot be interrupted. Here it never ends: in a child process that asks for the
# device's capabilities, in one that builds, and in the process itself.)
for where in asking building itself; do
    rule=build:family=adam:hang
    [ $where != asking ] || rule=build:option=-DPROBE_:hang
    : >calls
    if [ $where = itself ]; then export POCL_KERNEL_CACHE=0; fi # without PoCL's cache no other process builds
    POCL_CACHE_DIR=$work/cold2 CLTRAIN_CACHE_DIR=$work/cold2 CLTRAIN_BUILDERS=2 CLT_SHIM="$rule;log=$work/calls" \
        env --default-signal=INT LD_PRELOAD="$shim" "$CLTRAIN" train net.json --out early >early.out 2>&1 &
    process=$!
    await_from $process test -s calls
    hung=$(awk '{ print $1; exit }' calls)
    if [ $where = itself ] && [ "$hung" -ne $process ]; then fail 'another process builds'; else pass; fi
    if [ $where != itself ] && [ "$hung" -eq $process ]; then fail "$where: no other process does it"; else pass; fi
    kill -INT $process
    await_end $process || kill -KILL $process
    wait $process
    code=$?
    cp early.out "$out"
    if [ $code -eq 75 ]; then pass; else fail "interrupted while the driver builds, $where: code $code"; fi
    await is_over "$hung"
    expect_absent early
    CLTRAIN_CACHE_DIR=$work/cold2 expect_code 0 env LD_PRELOAD="$shim" "$CLTRAIN" devices # asked once: the next run only builds
done
unset POCL_KERNEL_CACHE
for signal in TERM HUP USR2 INT; do
    env --default-signal=INT,HUP "$CLTRAIN" train net.json --out never/run >never.out 2>&1 &
    process=$!
    sleep 0.0$((RANDOM % 10))
    children=$(pgrep -P $process | tr '\n' ' ')
    kill -$signal $process
    wait $process
    code=$?
    cp never.out "$out"
    # The command may have ended already, or may not yet have installed its signal handling.
    if [ $code -eq 75 ] || [ $code -gt 128 ]; then pass; else fail "SIG$signal at the start: code $code"; fi
    [ -d never/run ] && { grep -q '"update":' never/run/metrics.jsonl || fail "SIG$signal at the start: a run folder without a step"; }
    rm -rf never
    for child in $children; do
        if await is_over "$child"; then pass; else fail "SIG$signal at the start: a child process is left"; fi
    done
done

# --- checkpoints at time intervals: as many as expected, with the same result, also after the interval was
# changed ---
# The interval is a fiftieth of the time that the same steps took; a save may wait for a slow step, and for
# the save before it.
expect_code 0 "$CLTRAIN" train net.json train.steps=4000 --out plain checkpoint.minutes=1000000
if event plain saved | grep -q '"reason":"time"'; then fail 'a short run saved by time'; else pass; fi
seconds=$(values time plain/metrics.jsonl | awk 'NR == 1 { first = $1 } END { printf "%.6f", $1 - first + 1e-3 }')
part_of() { awk -v s="$seconds" -v n="$1" 'BEGIN { printf "%.9f", s / n / 60 }'; } # minutes
expect_code 0 "$CLTRAIN" train net.json train.steps=4000 --out clock checkpoint.minutes="$(part_of 50)" --max-steps 2500
expect_code 0 "$CLTRAIN" train net.json train.steps=4000 --out clock checkpoint.minutes="$(part_of 100)" --resume auto
if [ "$(event clock saved | grep -c '"reason":"time"')" -ge 2 ]; then pass; else fail "no checkpoints by time in $seconds s"; fi
expect_same plain/checkpoints/step_4000/model.safetensors clock/checkpoints/step_4000/model.safetensors
expect_same plain/checkpoints/step_4000/optimizer.safetensors clock/checkpoints/step_4000/optimizer.safetensors
expect_same <(numbers plain) <(numbers clock | grep -v '"step":2500,"eval')
expect_code 0 "$CLTRAIN" train net.json train.steps=400 --out off checkpoint.minutes=0
if event off saved | grep -q '"reason":"time"'; then fail 'checkpoint.minutes=0 saves by time'; else pass; fi
finish
