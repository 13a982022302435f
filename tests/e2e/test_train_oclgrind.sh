#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Whole runs under the interpreter Oclgrind: a step of a small MLP and of a small GPT with dropout, in f32
# and with 16-bit storage, with everything before and after it (priming, evaluation, checkpoint): no invalid
# access, no data race, no use of an uninitialised value. And the script detects a kernel with such a fault.
# oclgrind_shadow.c says why a library is loaded with it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v oclgrind >/dev/null || skip_all "oclgrind is not installed (package oclgrind)"
if grep -q -a __asan_init "$CLTRAIN"; then skip_all "a program with AddressSanitizer does not run under oclgrind"; fi
export CLTRAIN_PROBE_SECONDS=1000000 # the interpreter is slow, and no answer of it is too slow
oclgrind "$CLTRAIN" devices >devices 2>&1
grep -q Oclgrind devices || { cp devices "$out"; skip_all "oclgrind's device is not visible to the program"; }
shadow=$CLTRAIN_BUILD_DIR/tests/oclgrind_shadow.so
[ -f "$shadow" ] || { echo "there is no $shadow" >"$out"; fail "the library that goes with this script is missing"; finish; }

# oclgrind puts its own library into LD_PRELOAD: ours must come before it.
cat >in_front <<END
#!/bin/sh
LD_PRELOAD="$shadow:\$LD_PRELOAD" exec "\$@"
END
chmod +x in_front

# watched LOG COMMAND...: runs the command under the interpreter.
watched() {
    local log=$1
    shift
    guarded oclgrind --data-races --uninitialized --log "$log" ./in_front "$@" >"$out" 2>&1 </dev/null
}

# trains NAME CONFIG key=value...: two steps that succeed and leave nothing in the log.
trains() {
    local name=$1 config=$2
    shift 2
    if watched "$name.log" "$CLTRAIN" train "$config" --out "$name" "$@"; then
        pass
        expect_text '^done: 2 steps'
    else
        fail "$name does not train under oclgrind"
    fi
    if [ -s "$name.log" ]; then
        cp "$name.log" "$out"
        fail "$name: oclgrind reports something"
    else
        pass
    fi
}

cat >mlp.json <<END
{"model": {"type": "mlp", "hidden": [8], "outputs": 4, "activation": "relu"},
 "data": {"type": "synthetic", "shape": [8], "classes": 4, "samples": 8, "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.01}, "train": {"steps": 2}, "device": {"tune": "off"}}
END
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%d and %d\n", i % 7, i * i % 5 }' >text.txt
cat >gpt.json <<END
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 8, "context": 5, "vocab_pad": 8, "dropout": 0.2},
 "data": {"type": "text", "path": "text.txt", "micro_batch": 2, "global_batch": 4, "split": 0.5},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1},
 "train": {"steps": 2, "eval_batches": 1}, "device": {"tune": "off"}}
END
trains mlp mlp.json optimizer.type=sgd optimizer.momentum=0.9 optimizer.nesterov=true
trains gpt gpt.json
trains gpt_f16 gpt.json precision.mode=f16 train.recompute=block
trains gpt_overflow gpt.json precision.mode=f16 precision.loss_scale=1e30 train.recompute=block

# The fault is in a kernel that no self-test of the device runs; otherwise the kernel would not be used.
mkdir kernels
sed 's|uint16 sum = (uint16)(0u), |uint16 sum, |' "$CLTRAIN_BUILD_DIR/kernels/checksum.cl" >kernels/checksum.cl
if cmp -s kernels/checksum.cl "$CLTRAIN_BUILD_DIR/kernels/checksum.cl"; then fail "there is nothing to plant in checksum.cl"; fi
CLTRAIN_KERNEL_DIR=$work/kernels watched planted "$CLTRAIN" train mlp.json --out planted_run
if grep -q 'checksum_lane' planted; then pass; else fail "an uninitialised sum was planted and not reported"; fi
finish
