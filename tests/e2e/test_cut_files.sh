#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 12
# ctest-optimise: no
#
# Files that change while a run uses them, or that were damaged before: if a data file becomes shorter, the
# training names it, saves its state and ends; if a file of a checkpoint is damaged, every command takes the
# checkpoint before it; a damaged record that only reports need never ends a training.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

# --- data that is cut while it is mapped: whole pages are missing, or only bytes of the last page, which
# raises no signal ---
f32_values() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "\\x%02x\\x%02x\\x%02x\\x3f", i % 251, i % 13, i % 7 * 16 }' | { IFS= read -r -d '' text || true; printf '%b' "$text"; }; }
{ npy_header '<f4' '(600, 12)' && f32_values 7200; } >x.npy
{ npy_header '|u1' '(600,)' && bytes 600 3 4; } >y.npy
{ be32 0x00000803 && be32 600 && be32 4 && be32 4 && bytes 9600 5 256; } >x.idx
{ be32 0x00000801 && be32 600 && bytes 600 7 4; } >y.idx
bytes 30730 11 10 >batch.bin # CIFAR-10: ten records of 3073 bytes, all bytes below 10
bytes 60000 13 100 >ids.bin # u16 tokens without a header; odd bytes are zeros below
od -An -v -t u1 -w2 ids.bin | awk '{ printf "\\x%02x\\x00", $1 }' | { IFS= read -r -d '' text || true; printf '%b' "$text"; } >t.bin
mlp='"model": {"type": "mlp", "hidden": [8], "outputs": 10}'
"$CLTRAIN_BUILD_DIR/tests/make_images" images --count 8 --classes 2 --size 16,16 || fail 'no images were made'
"$CLTRAIN" data prepare images --out images.pack >"$out" 2>&1 || fail 'the pack could not be made'
cat >npy.json <<JSON
{$mlp, "data": {"type": "npy", "path": "x.npy", "targets": "y.npy", "micro_batch": 4, "split": 0}}
JSON
cat >idx.json <<JSON
{$mlp, "data": {"type": "idx", "path": "x.idx", "targets": "y.idx", "micro_batch": 4, "scale": 0.004, "split": 0}}
JSON
cat >cifar.json <<JSON
{$mlp, "data": {"type": "cifar", "path": "batch.bin", "micro_batch": 2, "scale": 0.004, "split": 0}}
JSON
cat >pack.json <<JSON
{$mlp, "data": {"type": "images", "path": "images.pack", "size": [16, 16], "micro_batch": 2, "scale": 0.004, "split": 0,
  "on_bad_sample": "skip"}}
JSON
cat >tokens.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 1, "channels": 8, "context": 8, "vocab": 128},
 "data": {"type": "tokens", "path": "t.bin", "micro_batch": 2}}
JSON

# cut FORMAT FILE BYTES: trains, cuts the file to BYTES in the middle, and expects code 3, the file's name,
# and a saved newest step with the same parameters as in an undisturbed run.
cut() {
    local format=$1 file=$2 size=$3 process code=0 step
    rm -rf cut whole
    cp "$file" kept
    guarded "$CLTRAIN" train "$format.json" train.steps=4000000 checkpoint.every=0 --out cut >"$out" 2>&1 </dev/null &
    process=$!
    await_from $process has_updates cut 20
    truncate -s "$size" "$file"
    wait $process || code=$?
    [ $code = 3 ] && pass || fail "$format: code $code after the file was cut, expected 3"
    expect_text "data error: loading batch [0-9]+: .*reading '$file': it ends after $size bytes now" '^saved step [0-9]+ to cut/checkpoints/step_'
    cp kept "$file"
    step=$(find cut/checkpoints -name 'step_*' -printf '%f\n' | sed s/step_//)
    expect_code 0 "$CLTRAIN" train "$format.json" train.steps=4000000 --max-steps "$step" --out whole
    expect_same cut/checkpoints/"step_$step"/model.safetensors whole/checkpoints/"step_$step"/model.safetensors
    [ "$(sed -n '$s/.*"event":"\([a-z]*\)".*/\1/p' cut/metrics.jsonl)" = failed ] && pass || fail "$format: the run's records do not end with failed"
    grep -q '"event":"saved".*"reason":"error"' cut/metrics.jsonl && pass || fail "$format: no event saved with the reason"
    expect_code 0 "$CLTRAIN" train --resume cut --max-steps $((step + 1))
}
cut npy x.npy 2000
cut npy x.npy 28900
cut npy y.npy 200
cut idx x.idx 4096
cut cifar batch.bin 9000
cut tokens t.bin 5000
cut pack images.pack 3000 # a JPEG that is cut off is not a bad sample to be passed over

# --- if any file of a checkpoint is damaged, every command skips the checkpoint ---
expect_code 0 "$CLTRAIN" train npy.json train.steps=15 checkpoint.every=5 train.eval_every=0 --out good
for file in config.json data.json state.json model.safetensors; do
    for how in cut byte; do
        rm -rf bad && cp -r good bad
        case $how in
            cut) truncate -s 60 "bad/checkpoints/step_15/$file" ;;
            byte) printf '~' | dd of="bad/checkpoints/step_15/$file" bs=1 seek=20 conv=notrunc 2>/dev/null ;;
        esac
        rm -rf again && cp -r bad again
        expect_code 0 "$CLTRAIN" eval bad data.eval_path=x.npy data.eval_targets=y.npy
        expect_text 'checkpoint step_15 is skipped: '
        expect_code 0 "$CLTRAIN" train --resume bad
        expect_text 'checkpoint step_15 is skipped: ' "^resumed from bad/checkpoints/step_10 at step 10"
        expect_same good/checkpoints/step_15/model.safetensors bad/checkpoints/step_15/model.safetensors
        [ $how = byte ] || continue
        expect_code 0 "$CLTRAIN" train npy.json train.steps=15 checkpoint.every=5 train.eval_every=0 --out again --resume auto
        expect_text "^resumed from again/checkpoints/step_10 at step 10"
    done
done

# --- records for reports: a warning ---
net mlp 'model.hidden=[8]' model.outputs=3 data.samples=52 'data.shape=[6]' data.classes=3 data.micro_batch=4 data.global_batch=8 train.steps=8 \
    train.eval_every=2 train.eval_metrics=true >classes.json
mkdir -p folder/classes.json/x
expect_code 0 "$CLTRAIN" train classes.json --out folder
expect_text 'warning: classes.json could not be written, training continues: .*folder/classes.json' '^done: 8 steps'
[ "$(grep -c 'classes.json could' "$out")" = 1 ] && pass || fail 'a record that cannot be written is reported more than once'
mkdir -p profiled/profile.json/x
expect_code 0 "$CLTRAIN" train classes.json --profile --out profiled
expect_text 'the profile could not be written, training continues: .*profiled/profile.json'
finish
