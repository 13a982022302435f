#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 6 ctest-optimise: no
#
# With distant storage the number of images that are opened at the same time matters. Four or eight loader
# threads open one image each at the same time, although there are fewer slots than threads: no thread
# continues before all have met in an open (fault/slow_open_shim.c; bench/bench_loader.sh measures the
# gain). The losses are the same.
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
for workers in 4 8; do
    expect_code 0 env LD_PRELOAD="$shim" CLT_SLOW_OPEN_FOLDER=set/ CLT_SLOW_OPEN_MEET=$workers CLT_SLOW_OPEN_MET="$work/met$workers" \
        "$CLTRAIN" train net.json data.workers=$workers --out w$workers
    expect_file met$workers
done
expect_code 0 "$CLTRAIN" train net.json data.workers=1 --out fast
for workers in w4 w8; do
    expect_same <(values loss $workers/metrics.jsonl) <(values loss fast/metrics.jsonl)
done
finish
