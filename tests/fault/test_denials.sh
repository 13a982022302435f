#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# What a driver refused to a training (driver_shim.c) is remembered for its device: the next training plans without it at once, says
# so, and computes the same. `devices --again` forgets it. What came of a lack of memory, a busy device or a lost context is never
# remembered; a lack of host memory ends the run with 70.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
unset CLTRAIN_GEMM CLTRAIN_EMULATE CLTRAIN_STYLE
"$CLTRAIN" devices --json >devices.json 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'
grep -q '"wide_vectors"' devices.json || skip_all 'the device does not use products in lane style'
shim=$CLTRAIN_BUILD_DIR/tests/driver_shim.so
[ -f "$shim" ] || skip_all 'driver_shim was not built'
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:detect_leaks=0
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32], "outputs": 4},
 "data": {"type": "synthetic", "samples": 64, "shape": [12], "classes": 4, "micro_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.01}, "train": {"steps": 6, "log_every": 1}, "device": {"tune": "off"}}
JSON
# train CODE OUT RULES: with a driver that was good when it was asked for its capabilities
train() {
    rm -f shim.log
    expect_code "$1" env CLTRAIN_CACHE_DIR="$work/cache" LD_PRELOAD="$shim" CLT_SHIM="$3;log=$work/shim.log" \
        "$CLTRAIN" train net.json --out "$2"
}
digest() { sha256sum <"$1/checkpoints/step_6/model.safetensors"; }
again="which the driver refused in an earlier run; 'cltrain devices --again' forgets that"
good='build:family=no_such_family:error'

train 0 good "$good"
reject_text 'goes on without'
cp -r cache asked
for rule in launch:family=gemm_lane:error=-5 launch:family=gemm_lane:dead=-9999 launch:family=gemm_lane:event; do
    train 0 bad "$rule"
    expect_text 'goes on without'
    train 0 after "$good"
    reject_text 'goes on without'
    if [ "$(digest after)" = "$(digest good)" ]; then pass; else fail "$rule: other parameters in the next run"; fi
    rm -rf bad after
done
train 70 none build:family=gemm_lane:error=-6
expect_text CL_OUT_OF_HOST_MEMORY
for rule in build:family=gemm_lane:error launch:family=gemm_lane:error=-54; do
    rm -rf cache first second third
    cp -r asked cache
    train 0 first "$rule"
    expect_text "goes on without variant 'lane'"
    expect_file shim.log
    train 0 second "$rule"
    expect_text "this run goes on without .*variant 'gemm/lane', $again"
    reject_text "goes on without variant 'lane'"
    if [ -s shim.log ]; then fail "$rule: the kernel was tried again"; else pass; fi
    train 0 third "$good" # the driver may have become better: nobody asks it
    expect_text "$again"
    if [ "$(digest first)" = "$(digest second)" ] && [ "$(digest first)" = "$(digest third)" ]; then pass
    else fail "$rule: other parameters"; fi
done
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache" LD_PRELOAD="$shim" "$CLTRAIN" devices --again
rm -rf third
train 0 third "$good"
reject_text 'goes on without'
if [ "$(digest third)" = "$(digest good)" ]; then pass; else fail 'other parameters after devices --again'; fi
finish
