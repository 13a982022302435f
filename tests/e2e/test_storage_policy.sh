#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# A run with the rights of deploy/aws-policy.json and no others, on moto, which checks the rights of IAM by
# resource (it does not look at conditions): CLTRAIN_MOTO names its program `moto_server`. The whole run
# passes, and resumes on another machine; outside of the prefix nothing is allowed; if one of the rights is
# missing, the failure names it. Skipped without moto.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
moto=${CLTRAIN_MOTO:-}
[ -n "$moto" ] || skip_all 'CLTRAIN_MOTO does not name the program moto_server of moto'
clean_keys
export CLTRAIN_GEMM=simple # starts fastest
tool=$CLTRAIN_BUILD_DIR/tests/object_storage policy=$CLTRAIN_SOURCE_DIR/deploy/aws-policy.json

port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
INITIAL_NO_AUTH_ACTION_COUNT=1000 "$moto" -H 127.0.0.1 -p "$port" >moto.log 2>&1 &
moto_process=$!
moto_server=http://127.0.0.1:$port
ready() { python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/moto-api/data.json")' "$moto_server" 2>/dev/null; }
await_from $moto_process ready
rights() { guarded python3 "$CLTRAIN_SOURCE_DIR/tests/e2e/policy_set.py" "$moto_server" "$policy" "$@"; }
read -r AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY <<<"$(rights)"
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
[ -n "$AWS_SECRET_ACCESS_KEY" ] || { fail 'moto has given no keys'; cat moto.log; finish; }
storage_double proxy "$moto_server"
trap 'touch "$work/proxy/quit"; kill "$moto_process"; wait; rm -rf "$work"' EXIT

train() { expect_code "$1" "$CLTRAIN" train net.json "${@:2}"; kept_outputs; }
in_prefix=s3://models/cltrain/first
net mlp train.steps=40 checkpoint.every=10 >net.json

# With all rights of the file: a run, and another one that resumes it.
expect_code 0 "$CLTRAIN" train net.json --out straight
train 0 --out whole --max-steps 20 checkpoint.upload=$in_prefix/run
expect_code 0 "$CLTRAIN" ckpt verify $in_prefix/run
rm -r whole
train 0 --out whole --resume auto checkpoint.upload=$in_prefix/run
expect_text 'fetched step 20'
expect_same straight/checkpoints/step_40/model.safetensors whole/checkpoints/step_40/model.safetensors
train 0 --out fresh checkpoint.upload=$in_prefix/fresh
# Outside of the prefix. (moto ignores conditions, so a list passes.)
train 8 --out outside checkpoint.upload_seconds=20 checkpoint.upload=s3://models/other/run
expect_text '403 AccessDenied.* needs the right s3:PutObject'
expect_code 8 "$tool" models read other/x
expect_code 8 "$tool" otherbucket read cltrain/first/x
# Older checkpoints cannot be deleted with these rights; the run says so, and is complete.
train 0 --out keeping --max-steps 10 checkpoint.upload=$in_prefix/keeping checkpoint.upload_keep=1
train 0 --out keeping --resume auto checkpoint.upload=$in_prefix/keeping checkpoint.upload_keep=1
expect_text 'older checkpoints stay in the bucket: .* needs the right s3:DeleteObject'

# Each right that a run uses is removed once. An upload is aborted when one of its parts is refused.
rights s3:ListBucket
train 8 --out list checkpoint.upload=$in_prefix/list
expect_text 'needs the right s3:ListBucket'
rights s3:PutObject
train 8 --out put checkpoint.upload_seconds=20 checkpoint.upload=$in_prefix/put
expect_text '403 AccessDenied.* needs the right s3:PutObject'
rights s3:GetObject
train 8 --out get --resume auto checkpoint.upload=$in_prefix/run
expect_text 'needs the right s3:GetObject'
head -c 20000000 /dev/zero >large
for right in s3:AbortMultipartUpload none; do
    rights $right
    echo 'PUT partNumber=2 SomeError.400' >proxy/faults
    expect_code 8 "$tool" models upload cltrain/first/large large
    kept_outputs
    if [ $right = none ]; then reject_text 'the parts of an upload stay'; else expect_text "the parts of an upload stay .* needs the right $right"; fi
done
# cltrain does not list parts: that right is there for other programs.
rights s3:ListMultipartUploadParts
train 0 --out parts checkpoint.upload=$in_prefix/parts

no_secrets "$AWS_SECRET_ACCESS_KEY"
finish
