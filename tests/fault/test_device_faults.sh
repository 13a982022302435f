#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 20 ctest-optimise: no
#
# One OpenCL call of a short training fails, one command's event ends in an error, one read delivers a wrong
# bit, one allocation fails: the run ends with an error, or with 0 and the parameters of the run without a
# fault; no crash, no hang, no checkpoint with other parameters. CLTRAIN_FAULT_STEP=N: every N-th call fails
# (quick: a few); CLTRAIN_FAULT_KINDS: "calls events reads allocations" or some of them;
# CLTRAIN_FAULT_MODEL: mlp or gpt. test_device_faults_all.sh takes each call of both models.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
shims=$CLTRAIN_BUILD_DIR/tests
[ -f "$shims/call_shim.so" ] || skip_all "the shims are not built"
if nm "$CLTRAIN" 2>/dev/null | grep -q __asan_init; then skip_all "sanitizers take the place of the shims' functions"; fi
own_cache "$work/cache"

model=${CLTRAIN_FAULT_MODEL:-mlp}
kinds=${CLTRAIN_FAULT_KINDS:-calls events reads allocations}
awk 'BEGIN { for (i = 0; i < 60; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
[ "$model" = mlp ] || cat >net.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 8},
 "data": {"type": "text", "path": "text", "micro_batch": 2, "global_batch": 4, "workers": 1},
 "optimizer": {"type": "adamw", "learning_rate": 0.002, "clip": 1},
 "train": {"steps": 4, "log_every": 1},
 "checkpoint": {"every": 2, "keep": 5}}
JSON
[ "$model" = gpt ] || cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16, 8], "outputs": 10},
 "data": {"type": "synthetic", "shape": [12], "samples": 64, "micro_batch": 8, "global_batch": 16, "workers": 1},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1},
 "train": {"steps": 4, "log_every": 1},
 "checkpoint": {"every": 2, "keep": 5}}
JSON
digest() { sha256sum "$1/checkpoints/step_$2/model.safetensors" "$1/checkpoints/step_$2/optimizer.safetensors" | cut -d' ' -f1 | tr '\n' ' '; }
expect_code 0 "$CLTRAIN" train net.json --out good # fills the caches as well
# For each preloaded library, a child process asks for the driver's capabilities once; the sweeps test what
# comes after that.
for shim in call_shim driver_shim alloc_shim; do
    rm -rf run
    expect_code 0 env LD_PRELOAD="$shims/$shim.so" "$CLTRAIN" train net.json --out run
done
last_loss() { sed -n 's/^done: .*last loss \([0-9.]*\).*/\1/p' "$1"; }
want_loss=$(last_loss "$out")
want2=$(digest good 2)
want4=$(digest good 4)

# judge NAME: judges the last run, in the folder `run`, with its exit code in $code
judge() {
    local step want
    case $code in
    0 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 10 | 70) pass ;;
    124 | 137) fail "$1: the run hangs" ;;
    *) fail "$1: the run ends with $code" ;;
    esac
    if [ "$code" -eq 0 ] && [ ! -d run/checkpoints/step_4 ]; then fail "$1: code 0 without a last checkpoint"; fi
    # The run names what it gave up; other kernels round differently.
    if grep -q 'this run continues without' "$out"; then
        if [ "$code" -ne 0 ] || awk -v a="$(last_loss "$out")" -v b="$want_loss" 'BEGIN { exit !(a - b < 0.001 && b - a < 0.001) }'; then pass
        else fail "$1: other kernels, and the loss is not $want_loss"; fi
        return
    fi
    for step in 2 4; do
        [ -d "run/checkpoints/step_$step" ] || continue
        want=want$step
        if [ "$(digest run $step)" = "${!want}" ]; then pass; else fail "$1: step_$step has other parameters"; fi
    done
}
# train_with VARIABLE=VALUE SHIM: trains, sets $code
train_with() {
    rm -rf run
    code=0
    guarded env "$1" LD_PRELOAD="$shims/$2.so" "$CLTRAIN" train net.json --out run >"$out" 2>&1 </dev/null || code=$?
}

# sweep SHIM VARIABLE PREFIX SUFFIX FIRST STEP: tries number after number until none hits a call any more
sweep() {
    local n=$5 hits=0
    while :; do
        rm -f hit
        train_with "$2=$3$n$4" "$1"
        [ -s hit ] || break
        hits=$((hits + 1))
        judge "$2=$3$n$4 ($(head -n 1 hit))"
        n=$((n + $6))
    done
    if [ "$hits" -gt 0 ]; then pass; else fail "$2=$3$5$4 hit nothing"; fi
    echo "$1 $3: $hits runs with a fault, up to number $n"
}

checksums() {
    # The device's checksums by both of their kernels: with right data the run passes, and a wrong bit is
    # named and read again.
    for caps in none local,wg256; do
        rm -rf run
        expect_code 0 env CLTRAIN_GEMM=simple "$CLTRAIN" train net.json --out run --caps $caps
        reject_text 'arrived with other bits'
        rm -rf run
        expect_code 0 env CLTRAIN_GEMM=simple LD_PRELOAD="$shims/driver_shim.so" CLT_SHIM='read:bytes=768:flip:nth=1' \
            "$CLTRAIN" train net.json --out run --caps $caps
        expect_text "the checkpoint of step 2 could not be written.*reading 'fc1.weight.* arrived with other bits"
        expect_absent run/checkpoints/step_2
        expect_file run/checkpoints/step_4/model.safetensors
    done

    # If a driver refuses the kernels of the checksums, the check is given up, by name, and checkpoints are
    # saved.
    for rule in build:family=checksum:error kernel:kernel=checksum:error=-46 group:kernel=checksum:limit=0 launch:kernel=checksum:error=-54; do
        rm -rf run hit
        expect_code 0 env LD_PRELOAD="$shims/driver_shim.so" CLT_SHIM="$rule;log=hit" "$CLTRAIN" train net.json --out run
        expect_file hit
        expect_text 'checkpoints are saved without checksums of the device: '
        if [ "$(digest run 4)" = "$want4" ]; then pass; else fail "$rule: other parameters"; fi
    done
}
[ "$model$kinds" != 'mlpcalls events reads allocations' ] || checksums

step=${CLTRAIN_FAULT_STEP:-0}
few() { # NUMBER: every how many in the longer run; half as many in the short one
    if [ "$step" -gt 0 ]; then echo "$step"; elif all_cases; then echo "$1"; else echo $(($1 * 2)); fi
}
[[ $kinds != *calls* ]] || sweep call_shim CLT_CALL_SHIM "log=hit;" "" 3 "$(few 311)"
[[ $kinds != *events* ]] || sweep call_shim CLT_CALL_SHIM "log=hit;event=" "" 2 "$(few 61)"
[[ $kinds != *reads* ]] || sweep driver_shim CLT_SHIM "read:*:flip:nth=" ";log=hit" 2 "$(few 17)"

# Blocking reads, of gradients (log.histograms) and of an evaluation's counts: the driver has given up an
# earlier command and says so by this code. The run must treat it as a lost device, as for every other
# command.
blocking_reads() {
    local n hits=0
    sed 's/"log_every": 1/"log_every": 1, "eval_every": 2, "eval_metrics": true/; $s/}$/, "log": {"tensorboard": true, "histograms": 2}}/' net.json >figures.json
    for n in 1 4 16 40 64; do
        rm -rf run hit
        expect_code 10 env CLT_SHIM="read:*:error=-14:nth=$n;log=hit" LD_PRELOAD="$shims/driver_shim.so" "$CLTRAIN" train figures.json --out run
        expect_text 'device lost: .*reading [0-9]+ bytes from .*gave up a command that it had accepted'
        [ ! -s hit ] || hits=$((hits + 1))
    done
    if [ $hits = 5 ]; then pass; else fail "$hits of 5 reads were hit"; fi
}
if [[ $kinds == *reads* && $model == mlp ]]; then blocking_reads; fi

# Commands of an evaluation. With several batches in flight the host waits for the oldest: after a failed
# upload, whose callback may never come, the host must not wait for the batch's slot forever.
evaluation() {
    local n=1 hits=0
    while :; do
        rm -f hit
        code=0
        guarded env CLT_CALL_SHIM="log=hit;event=$n" LD_PRELOAD="$shims/call_shim.so" \
            "$CLTRAIN" eval net.json --checkpoint good/checkpoints/step_4 >"$out" 2>&1 </dev/null || code=$?
        [ -s hit ] || break
        hits=$((hits + 1))
        case $code in
        0) expect_text "loss $want_eval " ;;
        10) expect_text 'accepted command .*, which then failed' ;;
        *) fail "event $n of an evaluation ($(cat hit)): code $code" ;;
        esac
        n=$((n + $(few 4)))
    done
    if [ "$hits" -gt "$(few 2)" ]; then pass; else fail "$hits events of an evaluation were hit"; fi
    echo "call_shim: $hits runs of an evaluation with a fault, up to number $n"
}
# A command fails while the device is still busy with earlier commands: memory that they write to or call
# back with is not freed.
late_writes() {
    local n
    sed 's/\[16, 8\]/[1024, 1024]/; s/"samples": 64, "micro_batch": 8, "global_batch": 16/"samples": 4096, "micro_batch": 512, "global_batch": 512/
        s/"steps": 4/"steps": 1/' net.json >wide.json
    expect_code 0 "$CLTRAIN" train wide.json --out wide
    for n in 20 $(all_cases && echo 40 60); do
        rm -f hit late
        expect_code 10 env CLT_CALL_SHIM="log=hit;event=$n" LD_PRELOAD="$shims/call_shim.so $shims/free_shim.so" CLT_FREE_SHIM_LOG=late \
            "$CLTRAIN" eval wide --on train
        expect_file hit
        if [ "$(cat late)" -gt 500 ]; then pass; else fail "free_shim looked at $(cat late) blocks"; fi
    done
}
if [[ $kinds == *events* ]]; then
    expect_code 0 env LD_PRELOAD="$shims/call_shim.so" "$CLTRAIN" eval net.json --checkpoint good/checkpoints/step_4
    want_eval=$(sed -n 's/^eval .*loss \([0-9.]*\) .*/\1/p' "$out")
    [ -n "$want_eval" ] || fail 'the evaluation prints no loss'
    evaluation
    [ "$model" != mlp ] || late_writes
fi
[[ $kinds == *allocations* ]] || finish

# Allocations: first the number in a whole run is counted.
CLT_ALLOC_SHIM_LOG=count train_with CLT_ALLOC_SHIM=0 alloc_shim
judge "no allocation fails"
count=$(cat count 2>/dev/null || echo 0)
if [ "$count" -gt 100 ]; then pass; else fail "the shim saw $count allocations"; fi
n=5
runs=0
while [ "$n" -le "$count" ]; do
    train_with CLT_ALLOC_SHIM=$n alloc_shim
    judge "allocation $n of $count"
    case $code in
    0 | 70) pass ;; # 0: what could do without it
    *) fail "allocation $n of $count: code $code, not 70" ;;
    esac
    runs=$((runs + 1))
    n=$((n + $(few 263)))
done
echo "alloc_shim: $runs runs, $count allocations"
finish
