#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# The client of object storage, `ckpt` and checkpoint.upload with a real server, SeaweedFS, which CLTRAIN_SEAWEEDFS names (its program
# `weed`): odd keys, parts, encryption, refused keys, and a run that goes on from what was uploaded. Skipped without it.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
weed=${CLTRAIN_SEAWEEDFS:-}
[ -n "$weed" ] || skip_all 'CLTRAIN_SEAWEEDFS does not name the program weed of SeaweedFS'
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET CLTRAIN_GEMM=simple
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
s3() { expect_code "$1" "$tool" bucket "${@:2}"; kept_outputs; }

seaweedfs "$weed"
trap 'kill -9 "$seaweedfs_process" 2>/dev/null; wait; rm -rf "$work"' EXIT
printf 'hello' >hello

head -c 20000000 /dev/urandom >large
for key in 'odd/a b' 'odd/ü' 'odd/+' 'odd/&=%~!()' "odd/'*" 'odd/%20' 'odd/"<>' 'odd/日本'; do
    s3 0 put "$key" hello
    s3 0 read "$key"
    expect_text hello
    s3 0 list odd/
    if grep -q -x -F -- "$key 5" "$out"; then pass; else fail "the list does not have the key $key"; fi
done
s3 0 upload large large
s3 0 head large
expect_text '^20000000 "[0-9a-f]*-3"$'
s3 0 download large large.back
expect_same large large.back
STORAGE_SSE=AES256 s3 0 upload sealed large
s3 0 download sealed large.back
expect_same large large.back
s3 0 delete large
s3 0 head large
expect_text '^absent$'
s3 8 read large
AWS_SECRET_ACCESS_KEY=OTHER/SECRET s3 8 read ready
expect_text SignatureDoesNotMatch
AWS_ACCESS_KEY_ID=NOBODY s3 8 head ready
expect_code 8 "$tool" nobucket read x

net mlp train.steps=40 checkpoint.every=10 >net.json
expect_code 0 "$CLTRAIN" train net.json --out straight
expect_code 0 "$CLTRAIN" train net.json --out run --max-steps 20 checkpoint.upload=s3://bucket/run
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/run
rm -r run
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto checkpoint.upload=s3://bucket/run storage.sse=AES256
expect_text 'fetched step 20'
expect_same straight/checkpoints/step_40/model.safetensors run/checkpoints/step_40/model.safetensors
expect_code 0 "$CLTRAIN" ckpt gc s3://bucket/run --keep 1
expect_code 0 "$CLTRAIN" ckpt get s3://bucket/run --out copy
expect_same straight/checkpoints/step_40/model.safetensors copy/checkpoints/step_40/model.safetensors
no_secrets TEST/SECRET OTHER/SECRET
finish
