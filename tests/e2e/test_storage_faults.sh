#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-cost: 60 ctest-optimise: no
#
# Trainings that upload while 15 % of all requests fail (storage_double.py), and trainings that are killed
# during an upload, each on a machine whose disk is lost: no complete checkpoint is ever damaged, and a run
# that resumes from the newest one has the same bits as a run without faults. A training that gives up ends
# with 8, and names bucket, key and the reason. STORAGE_RUNS=N and STORAGE_KILLS=N: numbers of each (5, 3);
# with CLTRAIN_SEAWEEDFS, SeaweedFS's program `weed`, the faults happen before a real server.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
runs=${STORAGE_RUNS:-5} kills=${STORAGE_KILLS:-3}
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET CLTRAIN_GEMM=simple
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
if [ -n "${CLTRAIN_SEAWEEDFS:-}" ]; then
    seaweedfs "$CLTRAIN_SEAWEEDFS"
    storage_double proxy "$AWS_ENDPOINT_URL_S3"
    trap 'touch "$work/proxy/quit"; kill -9 "$seaweedfs_process" 2>/dev/null; wait; rm -rf "$work"' EXIT
else
    storage_double proxy
fi
RANDOM=5

# gives_up FILE: whether an output says which object could not be reached, and why.
gives_up() { grep -q -E 's3://bucket/[^ ]*: [A-Z]+: ([0-9]{3}|no answer: )' "$1"; }
# calm / storm: without and with faults.
calm() { rm -f proxy/chaos; }
storm() { echo 0.15 >proxy/chaos; }
# train_through FOLDER ARGUMENT...: a training among faults, tried again after one that gave up.
gave_up=0
train_through() {
    local code
    for _ in 1 2 3; do
        code=0
        guarded "$CLTRAIN" train "${@:2}" --out "$1" >"$out" 2>&1 || code=$?
        [ $code -eq 8 ] || break
        gave_up=$((gave_up + 1))
        if gives_up "$out"; then pass; else fail 'a training that gave up does not name the object and the reason'; fi
    done
    if [ $code -eq 0 ]; then pass; else fail "code $code"; fi
}

remove() { # PREFIX
    local key
    for key in $(guarded "$tool" bucket list "$1" 2>/dev/null | cut -d ' ' -f 1); do guarded "$tool" bucket delete "$key" 2>/dev/null; done
}

# A small model, and one whose files are uploaded in parts (12 and 24 MB).
net mlp train.steps=40 checkpoint.every=10 checkpoint.keep=0 >small.json
net mlp train.steps=6 checkpoint.every=2 checkpoint.keep=0 'model.hidden=[1600,1600]' >large.json
for size in small large; do expect_code 0 "$CLTRAIN" train $size.json --out "straight_$size"; done

for run in $(seq "$runs"); do
    size=small half=20 all=40
    if [ $((run % 10)) -eq 5 ]; then size=large half=4 all=6; fi
    address=s3://bucket/faults/$run
    storm
    train_through "run" $size.json --resume auto --max-steps $half checkpoint.upload=$address
    rm -rf run
    train_through "run" $size.json --resume auto checkpoint.upload=$address
    calm
    expect_same "straight_$size/checkpoints/step_$all/model.safetensors" "run/checkpoints/step_$all/model.safetensors"
    expect_code 0 "$CLTRAIN" ckpt get "$address" --out back
    expect_code 0 diff -r "run/checkpoints/step_$all" "back/checkpoints/step_$all"
    guarded "$CLTRAIN" ckpt verify "$address" >"$out" 2>&1
    expect_text "step_$all/: intact"
    reject_text 'does not match' truncated 'is missing'
    rm -rf run back
    [ $size = small ] || remove "faults/$run/"
done
echo "$runs trainings among faults, $gave_up of them gave up and were tried again"

# Killed at a random moment of an upload, which begins with the checkpoint of step 2.
listed() { guarded "$tool" bucket list "$1" 2>/dev/null | grep -q -E -- "$2"; } # PREFIX PATTERN
net mlp train.steps=4000000 checkpoint.every=2 checkpoint.keep=2 'model.hidden=[1600,1600]' >long.json
complete=0
for kill in $(seq "$kills"); do
    address=s3://bucket/kills/$kill
    : >proxy/requests
    "$CLTRAIN" train long.json --out lost checkpoint.upload=$address >lost.out 2>&1 &
    process=$!
    uploads() { grep -q "PUT .*kills/$kill/checkpoints" proxy/requests; }
    await_from $process uploads
    sleep "$(printf '%d.%03d' $((RANDOM % 6)) $((RANDOM % 1000)))" # any moment will do
    kill -9 $process
    wait $process 2>/dev/null
    rm -rf lost
    guarded "$CLTRAIN" ckpt verify "$address" >"$out" 2>&1
    reject_text 'does not match' truncated 'is missing'
    step=0
    if listed "kills/$kill/" manifest.json; then
        complete=$((complete + 1))
        step=$(guarded "$CLTRAIN" ckpt ls "$address" | awk '/ complete/ { step = $1 } END { print step }')
    fi
    expect_code 0 "$CLTRAIN" train long.json --out found --resume auto --max-steps $((step + 1)) checkpoint.upload=$address
    [ "$step" -eq 0 ] || expect_text "fetched step $step from"
    expect_code 0 "$CLTRAIN" train long.json --out beside --max-steps $((step + 1)) checkpoint.every=0
    expect_same "beside/checkpoints/step_$((step + 1))/model.safetensors" "found/checkpoints/step_$((step + 1))/model.safetensors"
    rm -rf found beside
    remove "kills/$kill/"
done
echo "$kills trainings were killed during an upload, $complete of them after a checkpoint was complete"
obeys proxy
finish
