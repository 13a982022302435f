#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# Bad input, end to end: each mistake gets its exit code, a message that names the object, the reason and the next step, and
# leaves nothing half-written behind.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# refused CODE PATTERN... -- ARGUMENT...: `cltrain train ARGUMENT... --out never` ends with CODE, says the patterns, writes nothing.
refused() {
    local code=$1 patterns=()
    shift
    while [ "$1" != -- ]; do patterns+=("$1") && shift; done
    shift
    expect_code "$code" "$CLTRAIN" train "$@" --out never
    expect_text "${patterns[@]}"
    expect_absent never
}

cat >base.json <<'JSON'
{
  "model": {"type": "mlp", "hidden": [16], "activation": "tanh"},
  "data": {"type": "synthetic", "samples": 256, "shape": [8], "classes": 4, "micro_batch": 16},
  "optimizer": {"type": "adam", "learning_rate": 0.01},
  "train": {"steps": 20}
}
JSON

# --- command line ---
expect_code 2 "$CLTRAIN"
expect_text 'usage: cltrain COMMAND'
expect_code 2 "$CLTRAIN" trian
expect_text "unknown command 'trian'" "did you mean 'train'" 'cltrain help'
refused 2 "unknown option '--maxsteps'" "did you mean '--max-steps'" 'cltrain train --help' -- base.json --maxsteps 3
refused 2 'option --max-steps needs a value: N' -- base.json --max-steps
refused 2 "option --max-steps: '0' is not an integer from 1" -- base.json --max-steps 0
refused 2 'option --dry-run takes no value' -- base.json --dry-run=1
refused 2 'option --device is given twice' -- base.json --device cpu --device cpu
refused 2 "unexpected argument 'other.json'" 'section.key=value' -- base.json other.json
refused 2 'missing argument: usage: cltrain train CONFIG' --
refused 7 'opening checkpoint absent: there is no such folder' -- base.json --resume absent
refused 2 'option --resume is given twice' -- base.json --resume auto --resume none
expect_code 2 "$CLTRAIN" generate
expect_text 'generate: missing argument: name the run folder'
expect_code 2 "$CLTRAIN" eval base.json
expect_text 'a CONFIG needs --checkpoint RUN or --init PATH'
refused 2 "no capability 'locl'" "did you mean 'local'" -- base.json --caps locl

# --- keys of the config ---
refused 2 "opening 'absent.json'" 'No such file' -- absent.json
echo '{"model": ' >cut.json
refused 2 'cut.json:2:1' 'the end of the text' -- cut.json
sed 's/"hidden"/"hiden"/' base.json >unknown.json
refused 2 'unknown.json:2:[0-9]+: model.hiden: unknown key' "did you mean 'model.hidden'" -- unknown.json
sed 's/"train": {/"train": {"steps": 3, /' base.json >twice.json
refused 2 'twice.json:5:2[0-9]: duplicate key "steps" \(first at 5:13\)' 'remove one' -- twice.json
sed -e 's/"micro_batch": 16/"micro_batch": "many"/' -e 's/0\.01/-1/' base.json >typed.json
refused 2 'typed.json:3:.*data.micro_batch: expected an integer or "auto", got a string' 'typed.json:4:.*learning_rate: -1 is out of range' \
    -- typed.json
refused 2 "'data.micro_batch=0': data.micro_batch: 0 is out of range; valid: 1 to" "'train.stps=3'.*did you mean 'train.steps'" \
    -- base.json data.micro_batch=0 train.stps=3
refused 2 'optimizer.nesterov: only for optimizer.type sgd' -- base.json optimizer.nesterov=true
refused 2 'precision.loss_scaling: f32 gradients need no' -- base.json precision.loss_scaling=static
refused 2 'parallel.tensor' 'unknown key' -- base.json parallel.tensor=2
refused 2 'data.path: required' -- base.json data.type=idx
for command in plan estimate "bench step" "config --print"; do
    # shellcheck disable=SC2086 # two words
    expect_code 2 "$CLTRAIN" $command unknown.json
    expect_text 'model.hiden: unknown key'
done

# --- layers that do not fit ---
layers() { # file, layers
    printf '{"model": {"type": "graph", "layers": [\n%s\n]},\n "data": {"type": "synthetic", "samples": 64, "shape": [8], "classes": 4, "micro_batch": 16},\n "train": {"steps": 4}}\n' "$2" >"$1"
}
ce='{"op": "cross_entropy"}'
layers graph.json '{"op": "linera", "out": 4}, '"$ce"
refused 2 'graph.json:2:8: model.layers\[0\]: there is no op' "did you mean 'linear'" -- graph.json
layers graph.json '{"op": "linear", "uot": 4}, '"$ce"
refused 2 "attribute 'uot': is unknown; did you mean 'out', which is required" -- graph.json
layers graph.json '{"op": "linear", "out": 4, "inputs": ["nowhere"]}, '"$ce"
refused 2 "layer 'linear1' \(linear\): input 'nowhere' is neither a layer nor a field" -- graph.json
layers graph.json '{"op": "linear", "name": "a", "out": 8, "inputs": ["b"]}, {"op": "add", "name": "b", "inputs": ["a", "x"]}, '"$ce"
refused 2 "form a cycle: 'b' reads 'a' reads 'b'" -- graph.json
layers graph.json '{"op": "linear", "name": "a", "out": 8, "inputs": ["a"]}, '"$ce"
refused 2 "form a cycle: 'a' reads 'a'" -- graph.json
layers graph.json '{"op": "linear", "name": "a", "out": 5}, {"op": "add", "name": "b", "inputs": ["a", "x"]}, '"$ce"
refused 2 "layer 'b' \(add\): input 1 \('x'\) has shape \(16,8\)" '\(16,5\)' -- graph.json
layers graph.json '{"op": "reshape", "shape": [3, 3]}, {"op": "linear", "out": 4}, '"$ce"
refused 2 "layer 'reshape1' \(reshape\): input \(16,8\) has 8 elements" -- graph.json
layers graph.json '{"op": "linear", "name": "a", "out": 4}, {"op": "linear", "name": "a", "out": 4}, '"$ce"
refused 2 "the name 'a' is taken by model.layers\[0\]" -- graph.json
layers graph.json '{"op": "linear", "out": 4}, {"op": "relu", "name": "dead", "inputs": ["x"]}, {"op": "cross_entropy", "inputs": ["linear1", "y"]}'
refused 2 "layer 'dead' \(relu\): its output is not used" -- graph.json
layers graph.json '{"op": "dropout", "p": 1.5}, {"op": "linear", "out": 4}, '"$ce"
refused 2 "attribute 'p': 1.5 is out of range" -- graph.json
layers graph.json '{"op": "linear", "out": 4}'
refused 2 'there is no loss' 'cross_entropy' -- graph.json
layers graph.json '3'
refused 2 'expected a layer' -- graph.json
layers graph.json '{"op": "linear", "out": 3}, '"$ce"
refused 3 'field "y".*is 3, out of range: the model takes 0 to 2' 'more classes' -- graph.json

# --- idx files ---
cat >idx.json <<'JSON'
{"model": {"type": "mlp", "hidden": [8]},
 "data": {"type": "idx", "path": "images.idx", "targets": "labels.idx", "micro_batch": 5},
 "train": {"steps": 4}}
JSON
{ be32 2051; be32 20; be32 4; be32 4; bytes 320 1 256; } >good.idx
{ be32 2049; be32 20; bytes 20 3 4; } >labels.idx
head -c 100 good.idx >images.idx
refused 3 "'images.idx': the file is cut off: its header declares 20 samples and so 336 bytes, but it ends after 100" -- idx.json
head -c 10 good.idx >images.idx
refused 3 'cut off inside the idx header' -- idx.json
: >images.idx
refused 3 "'images.idx' \(data.path\): the file is empty" -- idx.json
printf 'x' | cat good.idx - >images.idx
refused 3 '1 bytes follow the last sample' -- idx.json
printf 'JUNKJUNKJUNK' >images.idx
refused 3 "'images.idx': wrong magic 4a 55 4e 4b" 'data.type' -- idx.json
gzip -c good.idx | head -c 60 >images.idx
refused 3 "'images.idx': the gzip stream ends early" 'download it again' -- idx.json
cp labels.idx images.idx
refused 3 'are the input and target files swapped' -- idx.json
rm images.idx
refused 3 "opening 'images.idx'" 'No such file' -- idx.json
mkdir images.idx
refused 3 "'images.idx': it is a folder" -- idx.json
rmdir images.idx && cp good.idx images.idx
refused 3 "element 0 of 'labels.idx', sample 0 \(from byte 8 on\) is 3, out of range: the model takes 0 to 2" -- idx.json model.outputs=3
{ be32 2049; be32 19; bytes 19 3 4; } >labels.idx
refused 3 "'images.idx' holds 20 samples but 'labels.idx' holds 19 targets" -- idx.json

# --- npy and raw files ---
net mse data.type=npy data.path=x.npy data.targets=y.npy train.steps=4 >npy.json
{ npy_header '<f4' '(4, 2)'; f32 1 2 3 4 5 6 7 8; } >good.npy
{ npy_header '<f4' '(4, 1)'; f32 1 2 3 4; } >y.npy
head -c 130 good.npy >x.npy
refused 3 "'x.npy': the file is cut off: its header declares 4 samples" -- npy.json
head -c 30 good.npy >x.npy
refused 3 "'x.npy': the file is cut off inside the .npy header" -- npy.json
printf 'PK34 not an array' >x.npy
refused 3 "'x.npy': wrong magic" 'zip archive' -- npy.json
{ npy_header '<c8' '(4, 2)'; bytes 64 1 2; } >x.npy
refused 3 "dtype '<c8' is not supported" "astype\('float32'\)" -- npy.json
{ npy_header '<f4' '(5, 2)'; f32 1 2 3 4 5 6 7 8 9 10; } >x.npy
refused 3 "'x.npy' holds 5 samples but 'y.npy' holds 4" -- npy.json
cp good.npy x.npy
refused 2 'shape' 'layer .*mse' -- npy.json model.outputs=3

f32 1 2 3 4 5 6 7 8 >good.raw && f32 1 2 3 4 >y.raw
net mse data.type=raw data.path=x.raw data.targets=y.raw 'data.shape=[2]' 'data.target_shape=[1]' train.steps=4 >raw.json
head -c 27 good.raw >x.raw
refused 3 "'x.raw': 27 bytes are not a whole number of f32 samples" 'data.shape' -- raw.json
head -c 24 good.raw >x.raw
refused 3 "'x.raw' holds 3 samples but 'y.raw' holds 4" -- raw.json
: >x.raw
refused 3 "'x.raw' \(data.path\): the file is empty" -- raw.json

# --- text ---
cat >text.json <<'JSON'
{"model": {"type": "mlp", "hidden": [8], "embedding": 4},
 "data": {"type": "text", "path": "text.txt", "window": 4, "micro_batch": 4},
 "train": {"steps": 4}}
JSON
: >text.txt
refused 3 "not a single byte in 'text.txt' \(data.path\)" 'more than 4 bytes' -- text.json
printf abc >text.txt
refused 3 "3 bytes in 'text.txt' are too short" 'data.window' -- text.json
rm text.txt
refused 3 "opening 'text.txt'" 'No such file' -- text.json
yes abcdefghijk | head -n 50 >text.txt
refused 3 "'text.txt'.*out of range: the model takes 0 to 99" -- text.json model.outputs=100

# --- no platform, no such device ---
mkdir no_drivers
for vendors in /nonexistent "$work/no_drivers"; do
    export OCL_ICD_VENDORS=$vendors
    refused 4 'OpenCL' 'CL_PLATFORM_NOT_FOUND' 'no OpenCL driver is installed' 'cltrain doctor' -- base.json
    for command in devices doctor "verify --quick" "bench memory" "bench gemm" "bench ops" "bench step base.json" \
        "train base.json --dry-run"; do
        # shellcheck disable=SC2086 # several words
        expect_code 4 "$CLTRAIN" $command
        expect_text 'no device or driver' "cltrain doctor|install a driver|unset OCL_ICD_VENDORS: "
    done
    # faults that need no device are reported first
    refused 7 "opening 'absent'" -- base.json --init absent
    unset OCL_ICD_VENDORS
done
expect_absent runs
refused 4 "none matches 'banana'" 'there is 0:0' 'PLATFORM:DEVICE' -- base.json --device banana
refused 4 "none matches '7:0'" -- base.json --device 7:0
refused 4 "none matches 'banana'" -- base.json device.spec=banana

# --- too little device memory, found before anything is allocated ---
refused 5 "tensor 'fc1' needs .* bytes in one buffer" 'allows' 'data.micro_batch=[0-9]+ fits' \
    -- base.json data.micro_batch=16000000 'model.hidden=[4096]'
refused 5 "parameter 'fc2.weight' needs" 'no data.micro_batch fits' 'smaller model' -- base.json 'model.hidden=[16000000,1600000]'
expect_code 5 "$CLTRAIN" train base.json data.micro_batch=16000000 'model.hidden=[4096]' --dry-run
expect_text 'data.micro_batch=[0-9]+ fits'
expect_code 5 "$CLTRAIN" bench step base.json data.micro_batch=16000000 'model.hidden=[4096]'
expect_text 'data.micro_batch=[0-9]+ fits'
if "$CLTRAIN" devices | grep -q PoCL; then
    # PoCL takes its memory from this variable, in GiB.
    export POCL_MEMORY_LIMIT=1
    wide='model.hidden=[256,256,256,256,256,256,256]'
    refused 5 'the run needs [0-9.]+ MiB' 'can give' 'largest part: activations' 'data.micro_batch=[0-9]+ fits' \
        -- base.json data.micro_batch=200000 "$wide"
    fits=$(sed -n 's/.*data.micro_batch=\([0-9]*\) fits.*/\1/p' "$out")
    expect_code 0 "$CLTRAIN" train base.json "data.micro_batch=${fits:-0}" "$wide" --dry-run
    refused 5 'data.micro_batch=100000 fits' -- base.json data.micro_batch=200000 data.global_batch=600000 "$wide"
    unset POCL_MEMORY_LIMIT
else
    note_skip 'a device with little memory can only be simulated by PoCL'
fi

# --- the run folder ---
touch file
expect_code 8 "$CLTRAIN" train base.json --out file
expect_text "'file' is there and is not a folder" 'choose another place'
expect_code 8 "$CLTRAIN" train base.json --out file/below
expect_text "creating the folder 'file/below'"
expect_code 8 "$CLTRAIN" train base.json --out /proc/cltrain-test
expect_text "creating the folder '/proc/cltrain-test'"
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed && chmod a-w closed
    expect_code 8 "$CLTRAIN" train base.json --out closed/run
    expect_text "closed/run" 'ermission denied'
    chmod u+w closed
else
    note_skip 'root may write everywhere, so a folder without write permission is not tried'
fi

expect_code 0 "$CLTRAIN" train base.json --out first
cp -r first kept
expect_code 2 "$CLTRAIN" train base.json --out first
expect_text "run folder 'first' holds an earlier run" 'another --out'
if diff -r first kept >/dev/null; then pass; else fail 'the earlier run was changed'; fi

"$CLTRAIN" train base.json train.steps=4000000 --out locked >locked.out 2>&1 &
holder=$!
await_from "$holder" has_updates locked
expect_code 8 "$CLTRAIN" train base.json --out locked
expect_text "locking 'locked/lock': it is held by process $holder on host" 'use another directory'
kill -TERM "$holder"
wait "$holder"
code=$?
if [ "$code" -eq 75 ]; then pass; else fail "the run that held the lock was disturbed: code $code"; fi
expect_absent locked/lock

# --- weights and checkpoints ---
weights=first/checkpoints/step_20/model.safetensors
refused 7 'do not fit together \(3 tensors\)' 'fc1.weight is \[16,8\], the model needs \[17,8\]' 'fc1.bias is \[16\], the model needs \[17\]' \
    'check the model section' -- base.json 'model.hidden=[17]' --init $weights
refused 7 'fc2.weight is missing; the model needs it as \[16,16\]' 'fc2.bias is missing' -- base.json 'model.hidden=[16,16]' --init $weights
refused 7 "opening 'absent'" 'No such file' -- base.json --init absent
refused 7 'fc1.weight is \[16,8\], the model needs \[17,8\]' -- base.json 'model.hidden=[17]' --init first
refused 7 'base.json' 'is a JSON file without weights' -- base.json --init base.json
head -c 500 $weights >cut.safetensors
refused 7 'cut.safetensors: tensor "fc1.weight" ends at byte 512' 'truncated' -- base.json --init cut.safetensors
cp $weights nan.safetensors
size=$(wc -c <nan.safetensors)
printf '\x00\x00\xc0\x7f' | dd of=nan.safetensors bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
expect_code 6 "$CLTRAIN" train base.json --init nan.safetensors --out nan
expect_text 'not finite for 10 steps in a row' "first bad tensor: parameter 'out.bias' \(element 3\)" 'learning_rate'
expect_absent nan/checkpoints nan/lock
if [ "$(grep -c '"loss":null.*"nonfinite":true' nan/metrics.jsonl)" -eq 10 ]; then pass; else fail 'metrics.jsonl does not flag 10 steps'; fi
expect_code 6 "$CLTRAIN" eval base.json --init nan.safetensors
expect_text 'nan.safetensors' 'the loss is not finite'
expect_code 7 "$CLTRAIN" eval base.json --checkpoint absent
expect_text 'opening checkpoint absent: there is no such folder'
expect_code 7 "$CLTRAIN" eval base.json --checkpoint no_drivers
expect_text 'no_drivers holds none' 'step_N'
expect_code 7 "$CLTRAIN" eval base.json 'model.hidden=[5]' --checkpoint first
expect_text 'fc1.weight is \[16,8\], the model needs \[5,8\]'
cp -r first/checkpoints/step_20 damaged
printf x | dd of=damaged/model.safetensors bs=1 seek=$((size - 2)) conv=notrunc 2>/dev/null
expect_code 7 "$CLTRAIN" eval base.json --checkpoint damaged
expect_text 'damaged/model.safetensors: its content does not match the hash in its manifest'
rm damaged/model.safetensors
expect_code 7 "$CLTRAIN" eval base.json --checkpoint damaged
expect_text 'model.safetensors'
finish
