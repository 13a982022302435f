#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 6 ctest-optimise: no
#
# Storage that is far away: every open of an image takes 10 ms (fault/slow_open_shim.c). Eight loader threads halve the time for
# which a step waits for data with four, although there are fewer slots than threads (bench/bench_loader.sh measures it; here the machine
# may be busy, and threads that do not share slots would need the same time); the losses are the same.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
shim=$CLTRAIN_BUILD_DIR/tests/slow_open_shim.so
[ -f "$shim" ] || skip_all 'slow_open_shim was not built'
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device: nothing is trained'
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0

"$CLTRAIN_BUILD_DIR/tests/make_images" set --count 20 --classes 4 --size 24,32 || fail 'no images were made'
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]}, "optimizer": {"learning_rate": 0.001}, "train": {"steps": 14, "seed": 2},
 "data": {"type": "images", "path": "set", "size": 24, "micro_batch": 32, "prefetch": 2, "scale": 0.004}}
JSON
# What a step waits in the middle of all steps: those that were filled while the program was built are not among them.
waits() { values data_ms "$1/metrics.jsonl" | tail -n 10 | sort -g | awk '{ v[NR] = $1 } END { print (v[5] + v[6]) / 2 }'; }
for workers in 4 8; do
    expect_code 0 env LD_PRELOAD="$shim" CLT_SLOW_OPEN_FOLDER=set/ CLT_SLOW_OPEN_MS=10 "$CLTRAIN" train net.json \
        data.workers=$workers --out w$workers
done
expect_code 0 "$CLTRAIN" train net.json data.workers=1 --out fast
four=$(waits w4) eight=$(waits w8)
echo "data_ms with 4 threads: $four, with 8: $eight"
expect_awk "four threads waited $four ms for 32 images of 10 ms" "BEGIN { exit !($four > 60) }" # 80, less what is computed meanwhile
expect_awk "eight threads waited $eight ms, four $four" "BEGIN { exit !($eight <= 0.75 * $four) }"
for workers in w4 w8; do
    expect_same <(values loss $workers/metrics.jsonl) <(values loss fast/metrics.jsonl)
done
finish
