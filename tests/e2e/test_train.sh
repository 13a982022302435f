#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 15
#
# Training from end to end with tiny configs for every data type: metrics, falling loss, checkpoints, evaluation from them, repeated
# runs, early ends, signals, and planning without a device.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_shim

metric_keys='step update loss grad_norm lr loss_scale skipped step_ms samples_per_s data_ms comm_ms comm_exposed_ms
device_busy h2d_gbs d2h_gbs device_bytes time'

# check_run RUN STEPS: the run folder is complete, metrics.jsonl has every step with every key, and the loss fell.
check_run() {
    local run=$1 steps=$2 key
    expect_file "$run/config.resolved.json" "$run/metrics.jsonl" "$run/log.txt"
    expect_absent "$run/lock"
    grep -v -e '"eval_loss"' -e '^{"event"' "$run/metrics.jsonl" >"$run.steps"
    for key in $metric_keys; do
        if [ "$(grep -c "\"$key\":" "$run.steps")" -eq "$steps" ]; then pass; else fail "$run: not every step has $key"; fi
    done
    if [ "$(values step "$run.steps" | tr '\n' ' ')" = "$(seq -s ' ' "$steps") " ]; then pass; else fail "$run: steps are not 1..$steps"; fi
    values loss "$run.steps" >"$run.loss"
    expect_awk "$run: the loss did not fall" 'BEGIN { first = last = 0 } { v[NR] = $1 }
        END { n = NR < 10 ? 1 : 5; for (i = 1; i <= n; i++) { first += v[i]; last += v[NR + 1 - i] } exit !(NR > 1 && last < 0.8 * first) }' "$run.loss"
    expect_file "$run/checkpoints/step_$steps/manifest.json" "$run/checkpoints/step_$steps/model.safetensors" \
        "$run/checkpoints/step_$steps/optimizer.safetensors" "$run/checkpoints/step_$steps/state.json"
}

# check_eval CONFIG RUN: evaluating the run's newest checkpoint gives the last evaluation line in every digit.
check_eval() {
    local want got
    expect_code 0 "$CLTRAIN" eval "$1" --checkpoint "$2" --json "$2.eval"
    want=$(values eval_loss "$2/metrics.jsonl" | tail -n 1)
    got=$(values loss "$2.eval" | head -n 1)
    if [ -n "$want" ] && [ "$want" = "$got" ]; then pass; else fail "$2: eval says loss '$got', the run said '$want'"; fi
}

# --- an mlp on synthetic classes: accumulation, dropout, a schedule, evaluation and checkpoints during training ---
cat >mlp.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32, 32], "activation": "gelu", "dropout": 0.1},
 "data": {"type": "synthetic", "samples": 512, "shape": [3, 4], "classes": 5, "micro_batch": 16, "global_batch": 32},
 "optimizer": {"learning_rate": 0.01, "weight_decay": 0.01, "clip": 1},
 "schedule": {"type": "cosine", "warmup": 5},
 "train": {"steps": 40, "eval_every": 15, "log_every": 10}, "checkpoint": {"every": 10, "keep": 2}}
JSON
expect_code 0 "$CLTRAIN" train mlp.json --out mlp
expect_text '^device ' '^batch +32 samples a step, 2 times 16 one after the other' '^step 1/40 ' '^step 40/40 ' \
    '^eval at step 40 ' '^done: 40 steps' '^checkpoint: mlp/checkpoints/step_40'
if tr -d '\n' <"$out" | grep -q '[[:cntrl:]]'; then fail 'piped output holds control characters'; else pass; fi
check_run mlp 40
! grep -q '"tokens_per_s":[0-9]' mlp/metrics.jsonl && pass || fail 'a run without tokens has tokens in a second'
check_eval mlp.json mlp
if [ "$(grep '"eval_loss"' mlp/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/' | tr '\n' ' ')" = '15 30 40 ' ]; then pass; else fail 'evaluations are not at 15, 30, 40'; fi
expect_absent mlp/checkpoints/step_10 mlp/checkpoints/step_20 # keep is 2
expect_file mlp/checkpoints/step_30/model.safetensors
expect_awk 'the learning rate does not follow warm-up and cosine' '
    { lr[NR] = $1 } END { for (i = 2; i <= 5; i++) if (!(lr[i] > lr[i - 1])) exit 1
    for (i = 7; i <= 40; i++) if (!(lr[i] < lr[i - 1])) exit 1; exit !(lr[5] <= 0.0100001 && lr[40] < 0.001) }' <(values lr mlp.steps)

expect_code 0 "$CLTRAIN" train mlp.json --out again
expect_same mlp/checkpoints/step_40/model.safetensors again/checkpoints/step_40/model.safetensors
expect_same mlp/checkpoints/step_40/optimizer.safetensors again/checkpoints/step_40/optimizer.safetensors
expect_same mlp.loss <(values loss again/metrics.jsonl)

expect_code 0 "$CLTRAIN" train mlp.json --max-steps 12 --out short
values loss short/metrics.jsonl >short.loss && values lr short/metrics.jsonl >short.lr
expect_same short.loss <(head -n 12 mlp.loss) # and with it the data order and dropout
expect_same short.lr <(values lr mlp.steps | head -n 12)
expect_file short/checkpoints/step_12/model.safetensors

expect_code 0 "$CLTRAIN" train mlp.json train.seed=7 optimizer.learning_rate=0.02 data.workers=1 --max-steps 5 --out other
expect_awk 'another learning rate was not used' 'END { exit !(NR == 5 && $1 > 0.0199 && $1 < 0.0201) }' <(values lr other/metrics.jsonl)
if cmp -s <(head -n 1 mlp.loss) <(values loss other/metrics.jsonl | head -n 1); then fail 'another seed gives the same loss'; else pass; fi
expect_code 0 grep -q '"learning_rate": *0.02' other/config.resolved.json
expect_code 0 "$CLTRAIN" config --print mlp.json train.seed=7
expect_text '"seed": *7' 'override|command line'
# One loader thread or several: the same batches.
expect_code 0 "$CLTRAIN" train mlp.json data.workers=3 data.prefetch=7 --max-steps 5 --out workers
expect_same <(head -n 5 mlp.loss) <(values loss workers/metrics.jsonl)

expect_code 0 "$CLTRAIN" train mlp.json --dry-run
expect_text 'dry run: config and plan are good; data was opened, not read'
expect_code 0 "$CLTRAIN" train mlp.json --dry-run --out dry
expect_absent dry runs
expect_code 0 "$CLTRAIN" train mlp.json --max-steps 2
expect_code 0 "$CLTRAIN" train mlp.json --max-steps 2
expect_file runs/mlp/metrics.jsonl runs/mlp-2/metrics.jsonl

# --- profiles: the time of every command; trained parameters do not change ---
expect_code 0 "$CLTRAIN" train mlp.json --max-steps 5 --profile --out profiled
expect_text 'profile: profile.txt, profile.json, trace.json \(steps 1 to 5\) in profiled'
expect_same <(head -n 5 mlp.loss) <(values loss profiled/metrics.jsonl)
# The first step is left out. Two tables, of phases and of kernels, each cover all commands.
expect_awk 'profile.txt does not account for the whole time' '
    /^profile of 4 steps on / { head = 1 } / share / { table++ } $1 ~ /%$/ && table { share[table] += $1 }
    END { exit !(head && table == 2 && share[1] > 99 && share[1] < 101 && share[2] > 95 && share[2] < 105) }' profiled/profile.txt
expect_awk 'a line of the table of kernels is longer than 80 characters' '
    /kernel$/ { table = 1 } /^\(%roof/ { table = 0 } table && length > 80 { long = 1 } END { exit long }' profiled/profile.txt
expect_awk 'profile.json does not have every command as often as it runs' '
    /"command":/ { name = $2 } /"calls":/ { calls[name] = $2 + 0 }
    END { exit !(calls["\"update.optimizer\","] == 1 && calls["\"fc1.forward\","] == 2) }' profiled/profile.json # fc1: twice a step
for track in steps 'host \(enqueue\)' 'compute queue' 'copy queue' saver 'loader 0'; do
    expect_code 0 grep -q -E "\"name\":\"$track\"" profiled/trace.json
done
expect_code 0 "$CLTRAIN" train mlp.json --max-steps 12 --trace-from 9 --out traced
expect_text 'trace.json \(steps 9 to 12\)'
expect_code 0 "$CLTRAIN" bench step mlp.json --steps 3 --warmup 1 --json bench.json --trace bench-trace.json
expect_text '^step [0-9.]+ ms.*device busy [0-9.]+ %' 'outside OpenCL calls' '^ *share +ms/step' 'saved activations'
expect_code 0 grep -q '"command": "update.optimizer"' bench.json
expect_code 0 grep -q '"ph":"X"' bench-trace.json
expect_awk 'bench step knows nothing of the device' '/"device_busy":|"host_outside_opencl_ms":|"host_inside_opencl_ms":/ { n += $2 + 0 > 0 }
    END { exit !(n >= 3) }' bench.json

# --- starting from weights ---
expect_code 0 "$CLTRAIN" train mlp.json --init mlp/checkpoints/step_40/model.safetensors --max-steps 3 model.dropout=0 --out warm
expect_awk 'the start from trained weights is no better' 'NR == FNR { if (FNR == 1) cold = $1; next } FNR == 1 { warm = $1 } END { exit !(warm > 0 && warm < 0.7 * cold) }' \
    mlp.loss <(values loss warm/metrics.jsonl)

# --- a residual graph; device memory as estimated ---
cat >graph.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "flatten", "inputs": ["x"]}, {"op": "linear", "name": "stem", "out": 64}, {"op": "layernorm"},
   {"op": "linear", "out": 128}, {"op": "gelu"}, {"op": "dropout", "p": 0.1}, {"op": "linear", "name": "back", "out": 64},
   {"op": "add", "name": "sum", "inputs": ["stem", "back"]}, {"op": "layernorm"}, {"op": "linear", "name": "head", "out": 4},
   {"op": "cross_entropy", "inputs": ["head", "y"]}]},
 "data": {"type": "synthetic", "samples": 512, "shape": [4, 8], "classes": 4, "micro_batch": 32},
 "optimizer": {"learning_rate": 0.003}, "train": {"steps": 30, "eval_every": 10}}
JSON
expect_code 0 "$CLTRAIN" train graph.json --out graph
check_run graph 30
check_eval graph.json graph
used=$(values device_bytes graph.steps | tail -n 1)
for device in '--device generic' '' '--device cpu'; do
    # shellcheck disable=SC2086 # two words or none
    expect_code 0 "$CLTRAIN" estimate graph.json --json $device
    expect_awk "estimate ${device:-without a device} is not within 5 % of the $used bytes used" \
        'END { exit !(NR == 1 && $1 >= 0.95 * '"${used:-0}"' && $1 <= 1.05 * '"${used:-0}"') }' <(values total "$out")
done
export OCL_ICD_VENDORS=/nonexistent
expect_code 0 "$CLTRAIN" estimate graph.json
expect_text 'activations [0-9.]+ (KiB|MiB)' 'fits into the' 'the largest data.micro_batch that fits is [0-9]+' '^device +none was found \(.*planned for a generic GPU'
expect_code 0 "$CLTRAIN" plan graph.json --full
expect_text 'training plan' 'evaluation plan' 'phase forward: [0-9]+ commands' 'phase update' 'stem.forward' 'lower bound'
expect_code 0 "$CLTRAIN" plan graph.json data.micro_batch=64 --json
expect_text '"micro_batch": 64'
unset OCL_ICD_VENDORS

# --- text: the next byte ---
awk 'BEGIN { for (i = 0; i < 400; i++) printf "the %s sat on the %s.\n", i % 3 ? "cat" : "dog", i % 2 ? "mat" : "hat" }' >text.txt
cat >text.json <<'JSON'
{"model": {"type": "mlp", "embedding": 8, "hidden": [32], "outputs": 256},
 "data": {"type": "text", "path": ["text.txt"], "window": 6, "split": 0.2, "micro_batch": 32},
 "optimizer": {"learning_rate": 0.01}, "train": {"steps": 60}}
JSON
expect_code 0 "$CLTRAIN" train text.json --out text
check_run text 60
check_eval text.json text
expect_awk 'the text was not learnt' 'END { exit !(NR && $1 < 1.5) }' <(values eval_loss text/metrics.jsonl)

# --- idx, plain and compressed: the class is the bright quarter of the image ---
idx_images() { # samples
    be32 2051 && be32 "$1" && be32 4 && be32 4
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) for (p = 0; p < 16; p++)
        printf "\\x%02x", int(p / 4) == i % 4 ? 200 + (i * 7 + p) % 50 : (i * 5 + p * 3) % 40 }' |
        { IFS= read -r -d '' escaped || true; printf '%b' "$escaped"; }
}
idx_labels() { be32 2049 && be32 "$1" && for ((i = 0; i < $1; i++)); do printf "\\x0$((i % 4))"; done; }
idx_images 64 >images.idx && idx_labels 64 >labels.idx
idx_images 30 | gzip -c >test-images.idx.gz && idx_labels 30 | gzip -c >test-labels.idx.gz # 30: the last batch is padded
cat >idx.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]},
 "data": {"type": "idx", "path": "images.idx", "targets": "labels.idx", "eval_path": "test-images.idx.gz",
          "eval_targets": "test-labels.idx.gz", "micro_batch": 16, "scale": 0.00392156862745098, "mean": 0.2, "std": 0.3},
 "optimizer": {"learning_rate": 0.01}, "train": {"epochs": 10}}
JSON
expect_code 0 "$CLTRAIN" train idx.json --out idx
check_run idx 40
check_eval idx.json idx
expect_text '30 samples'
expect_awk 'the images were not learnt' 'END { exit !(NR && $1 == 1) }' <(values eval_accuracy idx/metrics.jsonl)

# --- numbers: npy, and the same bytes raw; y = x0 - x1 / 2 ---
numbers=$(awk 'BEGIN { for (i = 0; i < 48; i++) print (i * 5) % 16 / 8 - 1, (i * 11) % 32 / 16 - 1 }')
# shellcheck disable=SC2046,SC2086 # many words
f32 $numbers >x.raw && f32 $(awk '{ print $1 - $2 / 2 }' <<<"$numbers") >y.raw
{ npy_header '<f4' '(48, 2)' && cat x.raw; } >x.npy
{ npy_header '<f4' '(48, 1)' && cat y.raw; } >y.npy
cat >npy.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16], "activation": "tanh", "loss": "mse"},
 "data": {"type": "npy", "path": "x.npy", "targets": "y.npy", "eval_path": "x.npy", "eval_targets": "y.npy", "micro_batch": 16},
 "optimizer": {"type": "sgd", "momentum": 0.9, "nesterov": true, "learning_rate": 0.05}, "train": {"steps": 60}}
JSON
expect_code 0 "$CLTRAIN" train npy.json --out npy
check_run npy 60
check_eval npy.json npy
expect_awk 'the function was not learnt' 'END { exit !(NR && $1 < 0.01) }' <(values eval_loss npy/metrics.jsonl)
expect_code 0 "$CLTRAIN" train npy.json data.type=raw 'data.path=["x.raw"]' data.targets=y.raw 'data.eval_path=["x.raw"]' data.eval_targets=y.raw \
    'data.shape=[2]' 'data.target_shape=[1]' --out raw
expect_same npy/checkpoints/step_60/model.safetensors raw/checkpoints/step_60/model.safetensors

# --- signals and the STOP file: the step is finished and saved, code 75; a second SIGINT ends at once ---
# start_only RUN [OVERRIDE...]: starts a run in the background; $process is its id. SIGINT is ignored by
# background jobs of a script, so the program is started through env with the default reset. start: the
# same, until it has made steps.
start_only() {
    local run=$1
    shift
    env --default-signal=INT "$CLTRAIN" train mlp.json train.steps=2000000 train.eval_every=0 checkpoint.every=0 "$@" --out "$run" \
        >"$run.out" 2>&1 &
    process=$!
}
start() {
    start_only "$@"
    await_from "$process" has_updates "$1"
}
# stopped RUN: ended with 75 and a checkpoint of the last step that metrics.jsonl has.
stopped() {
    local code last
    wait "$process"
    code=$?
    cp "$1.out" "$out"
    if [ "$code" -eq 75 ]; then pass; else fail "$1: code $code instead of 75"; fi
    last=$(tail -n 1 "$1/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')
    expect_text "stopped after step $last of 2000000; saved in $1/checkpoints/step_$last"
    expect_file "$1/checkpoints/step_$last/model.safetensors"
    expect_absent "$1/lock"
}
for signal in TERM INT USR2; do
    start "sig$signal"
    kill -$signal "$process"
    stopped "sig$signal"
done
start file
touch file/STOP
stopped file
expect_absent file/STOP
# A step that never ends (fault/driver_shim.c), so that the run is still ending after the first SIGINT when
# the second comes. Steps are written once a second.
LD_PRELOAD=$shim CLT_SHIM="launch:kernel=update_adam:hang:nth=300;log=$work/calls" start_only twice
await_from "$process" test -s calls
kill -INT "$process"
await_from "$process" grep -q '^finishing step [0-9]*, then saving; Ctrl-C again ends' twice.out
kill -INT "$process"
wait "$process"
code=$?
if [ "$code" -eq 130 ]; then pass; else fail "two SIGINT: code $code instead of 130"; fi
expect_absent twice/checkpoints
finish
