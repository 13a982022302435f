#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# One allocation of a command fails (alloc_shim.c): it ends with 70 and says that memory was missing, or it
# does not need this memory, and ends with 0 and the result of a run without a fault. There is never a
# crash, a hang, another code or another result. test_device_faults.sh tests the commands that train.
# CLTRAIN_FAULT_STEP=N: every N-th allocation fails (default: a few of each command);
# CLTRAIN_FAULT_COMMANDS: some of the names below.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
shim=$CLTRAIN_BUILD_DIR/tests/alloc_shim.so
[ -f "$shim" ] || skip_all "the shim was not built"
if nm "$CLTRAIN" 2>/dev/null | grep -q __asan_init; then skip_all "sanitizers take the place of the shim's functions"; fi
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is trained'
own_cache "$work/cache"

awk 'BEGIN { for (i = 0; i < 60; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
net gpt model.context=8 data.micro_batch=2 data.workers=1 optimizer.type=adamw optimizer.learning_rate=0.002 train.steps=2 >net.json
expect_code 0 "$CLTRAIN" train net.json --out good
env LD_PRELOAD="$shim" "$CLTRAIN" verify -t softmax.odd --small --mode correct >/dev/null 2>&1 # asks the device
names=(plan estimate config prepare export verify eval generate report compare watch)
run() { # NAME VARIABLE=VALUE...: the command, its result in the folder `result`
    local name=$1
    shift
    local it=(guarded env "$@" LD_PRELOAD="$shim" "$CLTRAIN")
    rm -rf result
    mkdir result
    case $name in
    plan) "${it[@]}" plan net.json --json >result/text 2>"$out" ;;
    estimate) "${it[@]}" estimate net.json --json >result/text 2>"$out" ;;
    config) "${it[@]}" config net.json --print >result/text 2>"$out" ;;
    prepare) "${it[@]}" data prepare text --train-bpe 280 --threads 1 --out result/data >"$out" 2>&1 ;;
    export) "${it[@]}" export --checkpoint good --out result/net.safetensors >"$out" 2>&1 ;;
    verify) "${it[@]}" verify -t softmax.odd --small --mode correct --seed 7 >"$out" 2>&1 ;;
    eval) "${it[@]}" eval good --json result/text >"$out" 2>&1 ;;
    report) "${it[@]}" report good good --out result/page.html >"$out" 2>&1 ;;
    compare) "${it[@]}" compare good good --json >result/text 2>"$out" ;;
    watch) "${it[@]}" watch good --once >result/text 2>"$out" ;;
    generate) "${it[@]}" generate good --prompt 'line' --max-new 4 --temperature 0 >result/text 2>"$out" ;;
    esac
}
# Times differ from run to run, and so does the memory that a CPU device may use, since other processes use
# memory, too.
digest() {
    (cd result && find . -type f | sort | while read -r file; do
        echo "$file"
        sed -E 's/ on 20[-0-9]+ [0-9:]+ UTC//; s/"(usable_bytes|seconds|ms|samples_per_second|tokens_per_second)": *[-0-9.e+]+//g' "$file" | sha256sum
    done)
}
total=0
for name in ${CLTRAIN_FAULT_COMMANDS:-${names[@]}}; do
    rm -f count
    run "$name" CLT_ALLOC_SHIM_LOG="$work/count" CLT_ALLOC_SHIM=0 </dev/null || fail "$name fails without a fault"
    want=$(digest)
    rm -rf good_result
    cp -r result good_result
    count=$(cat count 2>/dev/null || echo 0)
    [ "$name" != verify ] || count=900 # its worker, which makes most of them, is ended and leaves no number
    if [ "$count" -gt 5 ]; then pass; else fail "$name: the shim saw $count allocations"; fi
    step=${CLTRAIN_FAULT_STEP:-$((count / 4 + 1))}
    n=$((step < 3 ? 1 : 3))
    runs=0
    while [ "$n" -le "$count" ]; do
        code=0
        run "$name" CLT_ALLOC_SHIM=$n </dev/null || code=$?
        case $code in
        70) if grep -qi 'memory' "$out"; then pass; else fail "$name, allocation $n of $count: 70, and no word of memory"; fi ;;
        0)
            if [ "$(digest)" != "$want" ]; then diff -r good_result result | head -n 20; fi
            if [ "$(digest)" = "$want" ]; then pass; else fail "$name, allocation $n of $count: code 0 and another result"; fi
            ;;
        *) fail "$name, allocation $n of $count: code $code" ;;
        esac
        runs=$((runs + 1))
        n=$((n + step))
    done
    echo "$name: $runs runs, $count allocations"
    total=$((total + runs))
done
echo "$total runs with a fault"
finish
