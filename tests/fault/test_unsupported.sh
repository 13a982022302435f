#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 15 ctest-optimise: no
#
# What a driver refused to a training (driver_shim.c) is remembered for its device: the next training plans
# without it from the start, says so, and computes the same results. A resumed run follows its checkpoint
# instead. `devices --again` forgets what was refused. Failures for lack of memory, a busy device or a lost
# context are never remembered. A lack of host memory ends the run with 70, also in a child process.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
unset CLTRAIN_GEMM CLTRAIN_EMULATE CLTRAIN_STYLE
need_lanes
need_shim
net mlp 'model.hidden=[32]' model.outputs=4 data.samples=64 'data.shape=[12]' data.classes=4 data.micro_batch=16 optimizer.type=adamw \
    optimizer.learning_rate=0.01 train.steps=6 train.log_every=1 device.tune=off >net.json
# train CODE OUT RULES OPTION...: trains with a driver that was good when it was asked for its capabilities
train() {
    local code=$1 run=$2 rules=$3
    shift 3
    rm -f shim.log
    expect_code "$code" env CLTRAIN_CACHE_DIR="$work/cache" LD_PRELOAD="$shim" CLT_SHIM="$rules;log=$work/shim.log" \
        "$CLTRAIN" train net.json --out "$run" "$@"
}
digest() { sha256sum <"$1/checkpoints/step_6/model.safetensors"; }
again="which the driver refused in an earlier run; 'cltrain devices --again' forgets that"
good='build:family=no_such_family:error'

train 0 good "$good"
reject_text 'continues without'
cp -r cache asked
for rule in launch:family=gemm_lane:dead=-9999 $(all_cases && echo launch:family=gemm_lane:error=-5 launch:family=gemm_lane:event); do
    train 0 bad "$rule"
    expect_text 'continues without'
    train 0 after "$good"
    reject_text 'continues without'
    if [ "$(digest after)" = "$(digest good)" ]; then pass; else fail "$rule: other parameters in the next run"; fi
    rm -rf bad after
done
# A build that fails once without a reason is tried again (PoCL, when several processes build the same program).
train 0 once build:family=gemm_lane:silent:nth=1
reject_text 'continues without'
expect_awk 'the build did not fail' '/gemm_lane/ { n++ } END { exit !n }' shim.log
train 70 none build:family=gemm_lane:error=-6
expect_text CL_OUT_OF_HOST_MEMORY
for rule in build:family=gemm_lane:error $(all_cases && echo launch:family=gemm_lane:error=-54); do
    rm -rf cache first second third
    cp -r asked cache
    train 0 first "$rule"
    expect_text "continues without variant 'lane'"
    expect_file shim.log
    train 0 second "$rule"
    expect_text "this run continues without .*variant 'gemm/lane', $again"
    reject_text "continues without variant 'lane'"
    if [ -s shim.log ]; then fail "$rule: the kernel was tried again"; else pass; fi
    train 0 third "$good" # the driver may have become better: nobody asks it
    expect_text "$again"
    if [ "$(digest first)" = "$(digest second)" ] && [ "$(digest first)" = "$(digest third)" ]; then pass
    else fail "$rule: other parameters"; fi
done
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache" LD_PRELOAD="$shim" "$CLTRAIN" devices --again
rm -rf third
train 0 third "$good"
reject_text 'continues without'
if [ "$(digest third)" = "$(digest good)" ]; then pass; else fail 'other parameters after devices --again'; fi

# A child process without host memory ends the run with 70: the parent does not ask the device instead.
for rule in build:family=probe:error=-6 build:family=gemm:error=-6; do
    expect_code 70 env CLTRAIN_CACHE_DIR="$work/unasked" LD_PRELOAD="$shim" CLT_SHIM="$rule" "$CLTRAIN" train net.json --out none
    expect_text 'in a child process: .*CL_OUT_OF_HOST_MEMORY'
    reject_text 'in this process'
done

# A device that was asked while it used lanes has not run the self-tests of kernels in groups, which it
# needs when lanes are masked.
rm -rf cache none
cp -r asked cache
train 0 none build:family=gemm_tile:error --caps=-wide_vectors
expect_text "goes without 'local' \\(refused\\): self-test local: gemm.odd_nn\\[tile\\]"
reject_text 'continues without'
rm -rf none
train 0 none build:family=gemm_tile:error --caps=-wide_vectors # remembered
expect_text "goes without 'local' .*as remembered"

# A resumed run computes as its checkpoint's run did, whatever the driver has refused to other runs since,
# unless the driver refuses it again.
# go_on RUN: keeps only the checkpoint of step 3, and resumes
go_on() {
    rm -rf "$1/checkpoints/step_6"
    train 0 "$1" "$2" --resume auto
}
rule=build:family=gemm_lane:error
rm -rf cache first
cp -r asked cache
train 0 whole "$good" checkpoint.every=3
cp -r whole refused
train 0 first "$rule" checkpoint.every=3
digest first >first.sum
go_on whole "$good"
expect_text "refused variant 'gemm/lane' to another run; the run of the checkpoint used it, so it is tried again"
reject_text 'continues without'
if [ "$(digest whole)" = "$(digest good)" ]; then pass; else fail 'what was refused to another run changed a resumed one'; fi
go_on refused "$rule"
expect_text 'it is tried again' "continues without variant 'lane'"
rm -rf cache
cp -r asked cache # forgotten
go_on first "$good"
expect_text "without variant 'gemm/lane', which the driver refused in the run of the checkpoint"
if [ "$(digest first)" = "$(cat first.sum)" ]; then pass; else fail 'a resumed run takes what was refused to the run of its checkpoint'; fi
finish
