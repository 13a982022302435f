#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of data in object storage for a training (docs/storage.md): GPT of 4 layers and 128 channels on
# 96 MB of token shards, from files; from a server that answers each request 20 ms late, with an empty
# folder of copies, and with a full one; these take turns. Tokens per second are over the whole program,
# from its start to its end. The parameters must have the same bits. The server is a Python script. Options
# and environment: benchlib.sh.
#
#   BENCH_STORAGE_TOOL: tests/object_storage of a build (default: that of the program's folder)
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

tool=${BENCH_STORAGE_TOOL:-$(dirname "$CLTRAIN")/tests/object_storage}
name="gpt 4 x 128, context 64, batch 12" steps=400 shards=12 bytes=8000000
if $self_test; then steps=3 shards=2 bytes=40000; fi
[ -x "$tool" ] || { skip all "there is no '$tool': build the tests, or set BENCH_STORAGE_TOOL"; finish; }
command -v python3 >/dev/null || { skip all 'python3, which simulates the server, is not installed'; finish; }

mkdir "$work/server" "$work/shards"
python3 "$here/../e2e/storage_double.py" "$work/server" &
trap 'touch "$work/server/quit"; wait; rm -rf "$work"' EXIT
until [ -s "$work/server/port" ]; do sleep 0.05; done
export AWS_ENDPOINT_URL_S3=http://127.0.0.1:$(cat "$work/server/port") AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET
for ((i = 0; i < shards; i++)); do
    python3 -c 'import random, sys
random.seed(int(sys.argv[2])); n = int(sys.argv[3]) // 2; b = bytearray(2 * n)
b[0::2] = bytes(x & 127 for x in random.randbytes(n)); open(sys.argv[1], "wb").write(b)' "$work/shards/train_$i.bin" $i $bytes
    "$tool" bucket upload "shards/train_$i.bin" "$work/shards/train_$i.bin" 2>/dev/null
done
echo 0.02 >"$work/server/delay"
cat >"$work/net.json" <<JSON
{"model": {"type": "gpt", "layers": 4, "heads": 4, "channels": 128, "context": 64, "vocab": 128},
 "data": {"type": "tokens", "path": "$work/shards", "micro_batch": 12},
 "train": {"steps": $steps}}
JSON
# train SIDE SETTINGS...: one run; tokens per second of the whole of it
train() {
    local side=$1
    shift
    rm -rf "$work/$side"
    ours train "$work/net.json" checkpoint.minutes=0 --out "$work/$side" storage.cache="$work/copies" "$@"
    sample "$name" "$side" tokens_s "$(calc "$steps * 12 * 64 / $wall_s")"
    cmp -s "$work/files/checkpoints/step_$steps/model.safetensors" "$work/$side/checkpoints/step_$steps/model.safetensors" ||
        { echo "FAIL: $side: the parameters differ from those of the run from files"; exit 1; }
}
for ((round = 0; round < rounds; round++)); do
    train files
    rm -rf "$work/copies"
    train cold data.path=s3://bucket/shards
    train warm data.path=s3://bucket/shards
done
for side in files cold warm; do
    rate=$(middle "$name" $side tokens_s)
    printf '%s, %-5s %.0f tokens a second\n' "$name" $side "$rate"
    record "$name" $side tokens_s "$rate" tokens/s
done
files=$(middle "$name" files tokens_s)
bar "$name" 'cold / files' "$(calc "$(middle "$name" cold tokens_s) / $files")" '>=' 0.90
bar "$name" 'warm / files' "$(calc "$(middle "$name" warm tokens_s) / $files")" '>=' 0.97
finish
