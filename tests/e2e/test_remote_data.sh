#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 30 ctest-optimise: no
#
# Data at an address s3:// (storage_double.py): every format trains with the same bits as from files, and
# runs resume from files to the address and back; data is fetched only once; a folder of copies that is too
# small, damaged or shared gives the same bits; an object that is replaced, refused or not there ends the
# run with code 8 or 3 and its address; and no output holds a secret.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/bert_lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

storage_double server
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET CLTRAIN_CACHE_DIR=$work/cache
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
train() { expect_code "$1" "$CLTRAIN" train "${@:2}"; kept_outputs; }
# put FILE...: uploads files, and all files of folders, under their names.
put() {
    local file
    find "$@" -type f | while read -r file; do guarded "$tool" bucket upload "d/$file" "$file" 2>/dev/null || fail "no upload of $file"; done
}
ended() { # CODE OUTPUT: waits for $process
    local code=0
    await_end $process
    wait $process || code=$?
    cp "$2" "$out"
    kept_outputs
    [ $code = "$1" ] && pass || fail "code $code instead of $1"
}
model() { echo "$1/checkpoints/step_$2/model.safetensors"; }
ranges() { grep -c 'GET.*bytes=' server/requests; } # requests for content so far
copies() { find cache/objects -type f -name '????????????????????????????????' | sort; }

# --- every format ---
f32_values() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "\\x%02x\\x%02x\\x%02x\\x3f", i % 251, i % 13, i % 7 * 16 }' | { IFS= read -r -d '' text || true; printf '%b' "$text"; }; }
{ npy_header '<f4' '(60, 12)' && f32_values 720; } >x.npy
{ npy_header '|u1' '(60,)' && bytes 60 3 4; } >y.npy
{ be32 0x00000803 && be32 60 && be32 4 && be32 4 && bytes 960 5 256; } >x.idx
{ be32 0x00000801 && be32 60 && bytes 60 7 4; } >y.idx
gzip -k x.idx y.idx
bytes 30730 11 10 >batch.bin
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 40; i++) print i % 7 "," i % 5 "," i % 3 }' >t.csv
mkdir texts
for i in 1 2 3; do awk -v i=$i 'BEGIN { for (l = 0; l < 60; l++) print "line", l * i, "of text", i }' >texts/$i.txt; done
"$CLTRAIN_BUILD_DIR/tests/make_images" images --count 8 --classes 2 --size 16,16 || fail 'no images were made'
"$CLTRAIN" data prepare images --out images.pack >"$out" 2>&1 || fail 'the pack could not be made'
mkdir tok
"$CLTRAIN" data prepare texts --tokenizer bytes --out tok/shards >"$out" 2>&1 || fail 'no shards were made'
awk 'BEGIN { for (d = 0; d < 20; d++) { for (l = 0; l < 6; l++) print "the well hello theory there hell wellness 12345."; print "" } }' >mlm.txt
"$CLTRAIN" data prepare mlm.txt --mlm --tokenizer "$pieces" --context 32 --out pairs >"$out" 2>&1 || fail 'no pairs were made'
records class 30 1 >class.jsonl
mkdir -p v/images v/masks
{ npy_header '<f4' '(4, 4, 4)' && f32_values 64; } | tee v/images/a.npy v/images/b.npy >v/images/c.npy
{ npy_header '|u1' '(4, 4, 4)' && bytes 64 7 2; } | tee v/masks/a.npy v/masks/b.npy >v/masks/c.npy
put x.npy y.npy x.idx y.idx x.idx.gz y.idx.gz batch.bin t.csv texts images images.pack tok pairs v class.jsonl

mlp='"model": {"type": "mlp", "hidden": [8], "outputs": 10}'
gpt='"model": {"type": "gpt", "layers": 1, "heads": 1, "channels": 8, "context": 8, "vocab": 257}'
# format NAME MODEL DATA: trains with "DATA" local and remote; @ in DATA is where the paths begin.
format() {
    local name=$1 config="{$2, \"data\": {$3}}"
    echo "${config//@/}" >"$name.json"
    echo "${config//@/s3:\/\/bucket\/d\/}" >"$name.far.json"
    train 0 "$name.json" train.steps=4 --out "$name"
    train 0 "$name.far.json" train.steps=4 --out "$name.far"
    expect_same "$(model "$name" 4)" "$(model "$name.far" 4)"
    expect_same <(grep '"\(eval_\)\?fingerprint"' "$name/checkpoints/step_4/data.json") \
        <(grep '"\(eval_\)\?fingerprint"' "$name.far/checkpoints/step_4/data.json")
}
format npy "$mlp" '"type": "npy", "path": "@x.npy", "targets": "@y.npy", "micro_batch": 4'
format idx "$mlp" '"type": "idx", "path": "@x.idx", "targets": "@y.idx", "eval_path": "@x.idx", "eval_targets": "@y.idx", "micro_batch": 4, "scale": 0.004'
format gz "$mlp" '"type": "idx", "path": "@x.idx.gz", "targets": "@y.idx.gz", "micro_batch": 4, "scale": 0.004'
format cifar "$mlp" '"type": "cifar", "path": "@batch.bin", "micro_batch": 2, "scale": 0.004'
format csv "\"model\": {\"type\": \"mlp\", \"hidden\": [8]}" '"type": "csv", "path": "@t.csv", "micro_batch": 4, "split": 0'
format folder "$mlp" '"type": "images", "path": "@images", "size": [16, 16], "micro_batch": 2, "scale": 0.004'
format pack "$mlp" '"type": "images", "path": "@images.pack", "size": [16, 16], "micro_batch": 2, "scale": 0.004'
format text "$gpt" '"type": "text", "path": "@texts", "micro_batch": 2'
format star "$gpt" '"type": "text", "path": "@texts/[12].*", "micro_batch": 2'
format tokens "$gpt" '"type": "tokens", "path": "@tok/shards", "micro_batch": 2'
format pairs '"model": {"type": "bert", "layers": 1, "heads": 1, "channels": 8, "context": 32, "positions": 64}' '"type": "mlm", "path": "@pairs", "micro_batch": 2'
format words '"model": {"type": "bert", "head": "class", "layers": 1, "heads": 1, "channels": 8, "context": 32, "positions": 64}' \
    "\"type\": \"annotated\", \"task\": \"class\", \"path\": \"@class.jsonl\", \"tokenizer\": \"$pieces\", \"micro_batch\": 2, \"split\": 0"
format volumes '"model": {"type": "graph", "layers": [{"op": "conv3d", "out": 2, "kernel": 1}, {"op": "cross_entropy"}]}' \
    '"type": "nifti", "path": "@v", "mask_classes": 2, "micro_batch": 1, "split": 0.4'
for i in 1 2 3; do echo "s3://bucket/d/texts/$i.txt"; done >list
train 0 text.json train.steps=4 data.path=@list --out list.far
expect_same "$(model text 4)" "$(model list.far 4)"
train 2 s3://bucket/d/none.json --out none
put npy.json
put npy/checkpoints/step_4/model.safetensors
train 0 s3://bucket/d/npy.json train.steps=4 --init s3://bucket/d/npy/checkpoints/step_4/model.safetensors --out from_bucket storage.cache="$work/mine"
expect_text 'npy/checkpoints/step_4/model.safetensors'
[ "$(find mine -type f 2>/dev/null | wc -l)" -gt 2 ] && pass || fail 'storage.cache has no effect after a config from the bucket'
rm -rf mine
train 7 npy.json --init s3://bucket/d/none.safetensors --out none
expect_text 'there is no such object'
train 0 s3://bucket/d/npy.json train.steps=4 --init "$(model npy 4)" --out from_config # a config, with its data here

# --- from files to the bucket and back ---
train 0 npy.json train.steps=8 --out whole
train 0 npy.far.json train.steps=8 --out npy --resume auto
expect_same "$(model whole 8)" "$(model npy 8)"
train 0 npy.json train.steps=8 --out npy.far --resume auto
expect_same "$(model whole 8)" "$(model npy.far 8)"
train 0 --resume npy.far train.steps=12 # its own config is of the bucket's data, or of files: both are there
mkdir elsewhere
(cd elsewhere && expect_code 0 "$CLTRAIN" eval ../idx.far && expect_code 0 "$CLTRAIN" data verify s3://bucket/d/x.npy)

# --- fetched once ---
before=$(ranges)
train 0 tokens.far.json train.steps=4 --out again
[ "$(ranges)" = "$before" ] && pass || fail "what is here was fetched again"
expect_code 0 "$CLTRAIN" cache
expect_text '^  objects +[0-9.]+ KiB'

# --- the headers of many files are fetched several at a time, and the error names the first bad file ---
mkdir shards
for i in 0 1 2 3 4 5; do cp "$(find tok/shards -name '*train*.bin' | head -n 1)" shards/train_$i.bin; done
put shards
format shards "$gpt" '"type": "tokens", "path": "@shards", "micro_batch": 2'
named=data.path='["s3://bucket/d/shards/train_3.bin","s3://bucket/d/shards/train_0.bin","s3://bucket/d/shards/train_1.bin"]'
# together FILE FILE CONFIG [OVERRIDE]: neither file is answered without the other
together() {
    rm -rf cache/objects
    printf '%s\n' "GET $1 meet" "GET $2 meet" >server/faults
    : >server/requests
    train 0 "$3" train.steps=4 storage.ahead=false --dry-run "${@:4}"
    for name in "$1" "$2"; do # a request that waits alone is given up, and made again
        [ "$(grep -c "^GET .*$name .*bytes=" server/requests)" = 1 ] && pass || fail "$name was not asked for once: $(cat server/requests)"
    done
    [ ! -s server/faults ] && pass || fail "requests that were not made: $(cat server/faults)"
}
for path in data.path=s3://bucket/d/shards "$named" data.path='s3://bucket/d/shards/*_[013].bin'; do
    together shards/train_0.bin shards/train_3.bin shards.far.json "$path"
done
together v/images/a.npy v/masks/b.npy volumes.far.json
together texts/1.txt texts/2.txt text.far.json
rm -rf cache/objects
printf '%s\n' 'GET shards/train_4.bin 403*' 'GET shards/train_1.bin 403*' >server/faults
train 8 shards.far.json train.steps=4 storage.ahead=false --dry-run
expect_text 's3://bucket/d/shards/train_1.bin: GET: 403'
rm server/faults

# --- several blocks, with a cache for only two of them: the same bits; a damaged block is fetched again; a
# smaller cache ---
mkdir big
awk 'BEGIN { s = 1; for (i = 0; i < 1048576; i++) { s = (s * 1103515245 + 12345) % 2147483648; printf "%d\n", int(s / 65536) % 128 } }' |
    awk '{ printf "%c%c", $1 + 0 ? $1 : 1, 0 }' >piece 2>/dev/null
[ "$(stat -c %s piece)" = 2097152 ] || head -c 1048576 /dev/zero | tr '\0' '\1' | sed 's/\x01/\x07\x00/g' >piece
for i in 1 2 3 4 5 6; do cat piece; done >big/train_0.bin
head -c 5000002 big/train_0.bin >big/train_1.bin
put big
format big "$gpt" '"type": "tokens", "path": "@big", "micro_batch": 8'
rm -rf cache/objects
far() { rm -rf far && train "$1" big.far.json train.steps=4 --out far "${@:2}"; }
far 0 storage.cache_gb=0.01
expect_same "$(model big 4)" "$(model far 4)"
[ "$(du -s --block-size=1 cache/objects | cut -f 1)" -lt 14000000 ] && pass || fail "the folder of copies is larger than its limit"
far 0
expect_same "$(model big 4)" "$(model far 4)"
file=$(copies | xargs ls -S | head -n 1)
printf 'DAMAGE' | dd of="$file" bs=1 seek=100 conv=notrunc 2>/dev/null
far 0
expect_text "a part of the copy '.*' is damaged; it is fetched from 's3://bucket/d/big/train_0.bin' again"
expect_same "$(model big 4)" "$(model far 4)"
# ... also beside a process that goes on to read it.
rm -rf cache/objects
"$CLTRAIN" train big.far.json train.steps=4000000 --out reader >reader.out 2>&1 &
process=$!
await_from $process grep -q '"step":40,' reader/metrics.jsonl
file=$(copies | xargs ls -S | head -n 1)
printf 'DAMAGE' | dd of="$file" bs=1 seek=100 conv=notrunc 2>/dev/null
far 0
expect_text "a part of the copy '.*' is damaged; it is fetched from 's3://bucket/d/big/train_0.bin' again"
expect_same "$(model big 4)" "$(model far 4)"
kill -TERM $process
ended 75 reader.out
truncate -s 5 "$file"
far 0
expect_same "$(model big 4)" "$(model far 4)"
rm -rf cache/objects
far 0 storage.cache="$work/elsewhere/copies" storage.ahead=false
expect_same "$(model big 4)" "$(model far 4)"
expect_absent cache/objects
chmod 777 elsewhere/copies
far 8 storage.cache="$work/elsewhere/copies"
expect_text 'elsewhere/copies'
rm -rf elsewhere/copies

# --- faults that pass, and faults that stay ---
printf '%s\n' 'GET train_0.bin 503' 'GET train_0.bin cut' 'GET train_1.bin reset' 'GET list-type 500' 'HEAD big 503' >server/faults
far 0
expect_same "$(model big 4)" "$(model far 4)"
rm -rf cache/objects
for i in 1 2 3 4 5 6 7 8; do echo 'GET train_1.bin 403'; done >server/faults
far 8
expect_text 's3://bucket/d/big/train_1.bin: GET: 403'
rm -f server/faults
touch server/locked
far 8
expect_text "s3://bucket/d/big: HEAD: 403"
reject_text "data prepare"
rm server/locked
far 3 data.path=s3://bucket/d/nothing
expect_text "opening 's3://bucket/d/nothing' for reading: there is no such object"
far 8 data.path=s3://no-bucket/d
expect_text '404 NoSuchBucket'
far 3 data.path=s3://bucket/d/nothing/*.bin
expect_text "'s3://bucket/d/nothing/\*.bin' .*no file matches the pattern"

for file in x.npy x.idx images.pack pairs/train.pairs; do # a refused header is no other format
    rm -rf cache/objects far
    for i in 1 2 3 4; do echo "GET $file 403"; done >server/faults
    config=$(grep -l "$file" npy.far.json idx.far.json pack.far.json 2>/dev/null | head -n 1)
    train 8 "${config:-pairs.far.json}" train.steps=4 --out far
    expect_text "s3://bucket/d/$file: GET: 403"
done
rm -f server/faults
for address in s3:// s3://b/ s3://BAD_bucket/x; do far 2 data.path="[\"s3://bucket/d/big/train_0.bin\",\"$address\"]"; done

# A fingerprint of incomplete data is not kept, and is no reason to take the data for other data.
rm -rf cache/objects far whole
for i in 1 2 3 4 5 6; do echo 'GET train_0.bin.*bytes=8388608- 403'; done >server/faults
train 0 big.far.json train.steps=3 data.shuffle=false storage.ahead=false --out far
expect_code 1 grep -r -q '"fingerprint"' far/checkpoints --include=data.json
train 0 big.json train.steps=8 --out whole --max-steps 2
rm -rf cache/objects
for i in 1 2 3 4 5 6; do echo 'GET train_0.bin.*bytes=8388608- 403'; done >server/faults
train 8 big.far.json train.steps=8 --out whole --resume auto
rm server/faults
train 0 big.far.json train.steps=8 --out whole --resume auto
reject_text 'is not what it was'

# A new machine that resumes with an unchanged list of objects reads only what it trains on; if the list has
# changed, it compares the data.
print_of() { sed -n 's/.*"fingerprint": "\([0-9a-f]*\)".*/\1/p' "$1/data.json"; }
slow=(train.steps=12 data.shuffle=false storage.ahead=false --out far)
rm -rf cache/objects far
train 0 big.far.json "${slow[@]}" --max-steps 3
rm -rf cache/objects
for i in 1 2 3 4 5 6; do echo 'GET train_0.bin.*bytes=8388608- 403'; done >server/faults
train 0 big.far.json "${slow[@]}" --max-steps 6 --resume auto
rm server/faults
reject_text 'is not what it was'
if [ -n "$(print_of far/checkpoints/step_6)" ] && [ "$(print_of far/checkpoints/step_6)" = "$(print_of whole/checkpoints/step_8)" ]; then
    pass
else
    fail "the fingerprint of the same data is $(print_of far/checkpoints/step_6), and $(print_of whole/checkpoints/step_8)"
fi
{ head -c -2 big/train_0.bin; printf '\1\0'; } >changed
guarded "$tool" bucket upload d/big/train_0.bin changed 2>/dev/null || fail 'no upload'
rm -rf cache/objects
train 0 big.far.json "${slow[@]}" --max-steps 9 --resume auto
expect_text 'is not what it was'
guarded "$tool" bucket upload d/big/train_0.bin big/train_0.bin 2>/dev/null || fail 'no upload'
rm -rf far

# A copy of an object without a version could be one of another object.
touch server/untagged
for address in s3://bucket/d/big s3://bucket/d/big/train_0.bin; do
    far 8 data.path=$address
    expect_text 's3://bucket/d/big/train_[01].bin: the server gives no version \(ETag, of at most 127 characters\) of this object'
done
rm server/untagged
rm -rf cache/objects far

# A folder of many small files, and a disk that is full.
mkdir many
"$CLTRAIN_BUILD_DIR/tests/make_images" many --count 3000 --classes 2 --size 8,8 || fail 'no images were made'
mkdir -p server/new/d && mv many server/new/d/ && cp -r server/new/d/many many # of one object each, too many for one request each
touch server/take
await test ! -e server/take
format many "$mlp" '"type": "images", "path": "@many", "size": [8, 8], "micro_batch": 64, "scale": 0.004'
rm -rf cache/objects many.far
train 0 many.far.json train.steps=40 --out many.far storage.cache_gb=0.01
[ "$(du -s --block-size=1 cache/objects | cut -f 1)" -lt 14000000 ] && pass || fail "the folder of copies of images is larger than its limit"
if [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=3m tmpfs small 2>/dev/null; then
    far 8 storage.cache="$work/small/copies"
    expect_text 'No space left on device'
    dd if=/dev/zero of=small/rest bs=4096 2>/dev/null
    far 8 storage.cache="$work/small/copies"
    expect_text 'No space left on device'
    rm -rf small/* # and files whose copies go again as soon as they are read
    train 0 many.far.json train.steps=40 --out many.small storage.cache="$work/small/copies"
    expect_same "$(model many.far 40)" "$(model many.small 40)"
    umount small
else
    note_skip 'no disk of its own size can be mounted here'
fi

# An object is replaced while its blocks are fetched and dropped.
rm -rf cache/objects far
"$CLTRAIN" train big.far.json train.steps=4000000 checkpoint.every=0 storage.cache_gb=0.01 --out far >far.out 2>&1 &
process=$!
await_from $process has_updates far 5
head -c 12582912 /dev/zero >other
guarded "$tool" bucket upload d/big/train_0.bin other 2>/dev/null || fail 'no upload'
ended 8 far.out
expect_text 's3://bucket/d/big/train_0.bin: GET: 412 PreconditionFailed' '^saved step'
guarded "$tool" bucket upload d/big/train_0.bin big/train_0.bin 2>/dev/null || fail 'no upload'

# Ctrl-C while the server is silent.
rm -rf cache/objects far
echo 'GET train_1.bin hold' >server/faults
"$CLTRAIN" train big.far.json train.steps=4000000 checkpoint.every=0 --out far >far.out 2>&1 &
process=$!
is_held() { [ ! -s server/faults ]; }
await_from $process is_held
kill -INT $process
ended 75 far.out
reject_text '^training data' # bytes that did not come are zeros, and no tokens

no_secrets TEST/SECRET
obeys server
finish
