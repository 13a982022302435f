#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-parts: devices losses failure verify_70 verify_75 verify_80 verify_86 verify_89 verify_90
#
# cltrain from end to end on an H100 under a driver of series 580, without one: the simulated driver
# (tests/ptx) answers like that card, NVIDIA's own compiler builds the kernels that the card would get, and
# the executor runs them on the host. It is too slow for tensors of more than a few thousand elements, and
# its times mean nothing.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/losses_lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/nvidia_lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"
export CLTRAIN_PTX_SM=90 CLTRAIN_PTX_PLAY=h100 CLTRAIN_PTX_LOCAL_90A=232448

# Put before a command: uses the machine's own driver instead.
on_pocl=(env -u OCL_ICD_VENDORS -u OCL_ICD_FILENAMES "CLTRAIN_CACHE_DIR=$work/cache.pocl")

devices() {
    expect_code 0 "$CLTRAIN" devices
    expect_text 'NVIDIA H100 80GB HBM3 .*driver 580.* 132 units .* 79.2 GiB .*caps local,wg256,.*mma_f16,mma_bf16,mma_tf32,wgmma,wgmma_large,wgmma_wide$'
    reject_text 'goes without'
    expect_code 0 "$CLTRAIN" doctor
    expect_text "device 0:0 'NVIDIA H100 80GB HBM3' .driver 580.95.05. runs kernels" '^healthy'
    # The driver reports a quarter of the memory as its largest allocation, which is not its real limit.
    expect_code 0 "$CLTRAIN" devices --json
    expect_text '"local_proven_bytes": 49152,' '"local_retargeted_bytes": 232448,' '"local_argument_bytes": 0,' 'lasting_failures'
    # A driver that allows more than 48 KiB only as an argument of the kernel.
    expect_code 0 env -u CLTRAIN_PTX_LOCAL_90A CLTRAIN_PTX_LOCAL_ARGUMENT=232448 CLTRAIN_CACHE_DIR="$work/cache.argument" "$CLTRAIN" devices --json
    expect_text '"local_retargeted_bytes": 0,' '"local_argument_bytes": 232448,' '"wgmma_large",' '"wgmma_wide"$'
    reject_text 'goes without'
}

write_gpt() { # LAYERS STEPS
    awk 'BEGIN { for (i = 0; i < 700; i++) printf "%d and %d make %d\n", i % 7, i * i % 5, i % 7 + i * i % 5 }' >text.txt
    cat >gpt.json <<JSON
{"model": {"type": "gpt", "layers": $1, "heads": 2, "channels": 128, "context": 64},
 "data": {"type": "text", "path": "$work/text.txt", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.0005, "weight_decay": 0.1, "clip": 1},
 "train": {"steps": $2, "log_every": 1}, "device": {"tune": "off"}}
JSON
}

# trained NAME ["MODES"]: ten steps in every precision on the H100 and on PoCL, and no rule of the device violated.
trained() {
    local name=$1 mode worst
    for mode in ${2:-f32 f16 bf16}; do
        rm -rf report "$name.$mode" "$name.$mode.pocl"
        expect_code 0 env -u CLTRAIN_GEMM "${on_pocl[@]}" "$CLTRAIN" train "$name.json" precision.mode=$mode --out "$name.$mode.pocl"
        expect_code 0 "$CLTRAIN" train "$name.json" precision.mode=$mode --out "$name.$mode"
        if [ -s report ]; then fail "$name in $mode: $(head -n 3 report)"; else pass; fi
        if worst=$(apart "$name.$mode.pocl" "$name.$mode" 1 "$(write_tolerances $mode)"); then pass; else fail "$name in $mode: losses differ by $worst"; fi
        echo "$name in $mode: losses differ by at most $worst"
    done
}

losses() {
    write_gpt 2 10
    cat >mlp.json <<JSON
{"model": {"type": "mlp", "hidden": [256, 128]},
 "data": {"type": "synthetic", "shape": [64], "classes": 10, "samples": 512, "micro_batch": 64},
 "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}, "train": {"steps": 10, "log_every": 1}, "device": {"tune": "off"}}
JSON
    cat >resnet.json <<JSON
{"model": {"type": "resnet", "depth": 18, "stem": "cifar", "width": 16, "classes": 10},
 "data": {"type": "synthetic", "shape": [3, 16, 16], "classes": 10, "samples": 64, "micro_batch": 8},
 "optimizer": {"type": "sgd", "learning_rate": 0.00001, "momentum": 0.9}, "train": {"steps": 10, "log_every": 1}, "device": {"tune": "off"}}
JSON
    # With these rates small differences stay small. In the ResNet rounding moves a few of 200,000 activations across
    # the corner of their ReLU, which changes gradients by a jump: with a rate of 0.001 the losses of two styles on
    # PoCL differ by 1e-5 after one step and by 1e-3 after ten, with this one by 2e-6 to 4e-6 (seeds 1 to 6).
    trained gpt
    # Products of this size use mma. With wgmma the gradients of biases are computed together with those of
    # weights.
    expect_code 0 env CLTRAIN_GEMM=wgmma "$CLTRAIN" plan gpt.json precision.mode=bf16 --full
    if grep -q ' wgmma  *gemm_.*>d h.0.mlp.c_fc.bias' "$out"; then pass; else fail 'no product makes the gradient of a bias'; fi
    mv gpt.f16 gpt.f16.mma
    mv gpt.bf16 gpt.bf16.mma
    CLTRAIN_GEMM=wgmma trained gpt 'f16 bf16'
    # Residual sums in f32: products of 16-bit operands add to f32 and store it.
    for kind in mma wgmma; do
        sed 's/"device": {/"precision": {"residual": "f32"}, &/' gpt.json >gpt_residual_$kind.json
        CLTRAIN_GEMM=$kind trained gpt_residual_$kind bf16
    done
    for mode in f16 bf16; do # a gradient that is wrong moves a bias by a twentieth of a percent and the loss by more than this
        if worst=$(apart gpt.$mode.mma gpt.$mode 1 1e-6); then pass; else fail "gradients of biases in $mode: losses differ by $worst"; fi
    done
    trained mlp
    trained resnet
}

# edited FILE OLD NEW: makes a folder of kernels in which only this file is edited: its first OLD is
# replaced.
edited() {
    local text
    text=$(cat "$CLTRAIN_BUILD_DIR/kernels/$1")
    [[ $text == *"$2"* ]] || fail "$1 does not hold the text that the defect replaces: $2"
    rm -rf edited
    mkdir edited
    printf '%s\n' "${text/"$2"/"$3"}" >"edited/$1"
}

# A kernel that leaves its memory ends with NVIDIA's own code, and the driver refuses everything that this process asks for afterwards.
failure() {
    write_gpt 1 2
    # A kernel of the training: the error names a command, whether or not each command has its own event.
    edited embedding.cl 'STORE(DT, y + y0, i, ' 'STORE(DT, y + y0 + 1000000000UL, i, '
    for events in '' each; do
        rm -rf run
        expect_code 70 env CLTRAIN_EVENTS=$events CLTRAIN_KERNEL_DIR="$work/edited" "$CLTRAIN" train gpt.json precision.mode=bf16 --out run
        expect_text '^running embedding_fwd_flat of .*illegal access by a kernel .-9999.' 'and after that: '
    done
    # A kernel of a self-test: the tested capability is lost, with the test's name; another process asks for
    # the rest.
    edited layernorm.cl 'y += y0;' 'y += y0 + 1000000000UL;'
    expect_code 0 env CLTRAIN_KERNEL_DIR="$work/edited" "$CLTRAIN" devices --again
    expect_text "goes without 'local' .failed.: self-test attention: verify layernorm.vectors.blocks./correct: .* kernel layernorm_fwd_blocks, which then failed" 'driver 580.*caps .*fp64'
    reject_text 'test:update'
}

# checked SM LOCAL LEAST: the checker's small list with all its modes, as a device of that generation runs it. No product by matrix
# units spills a register. Of the other programs the assembler makes some fit 32 to 128 registers by a few bytes of spills, so that
# more groups run at a time. Forms of one item a group (LS=1) are for CPUs and may spill more.
checked() {
    unset CLTRAIN_PTX_POISON # among all numbers of f16, which some checks convert, are those of the pattern
    export CLTRAIN_PTX_SM=$1 CLTRAIN_PTX_LOCAL=$2 CLTRAIN_PTX_RESOURCES=$work/resources
    verified "$3" '*' --small
    # Without the probe of inline PTX the compiler still gets the instructions of matrix units, where the GPU has them.
    verified 4 'known*' --caps=-ptx
    sort -u resources | awk '$3 > 0 { print $1 " spills " $3 " bytes with " $2 " registers:" substr($0, length($1 $2 $3) + 3); n++ }
        $3 > 64 && !/ -DLS=1 / || $3 > 0 && $1 ~ /gemm.*mma/ { bad++ }
        END { print NR " programs, " n + 0 " with spills"; exit bad > 0 }' >"$out" && pass || fail 'a program spills more than it should'
    cat "$out"
}
verify_70() { unset CLTRAIN_PTX_PLAY && checked 70 98304 1000; }
verify_75() { unset CLTRAIN_PTX_PLAY && checked 75 65536 1000; }
verify_80() { unset CLTRAIN_PTX_PLAY && checked 80 166912 1000; }
verify_86() { unset CLTRAIN_PTX_PLAY && checked 86 101376 1000; }
verify_89() { unset CLTRAIN_PTX_PLAY && checked 89 101376 1000; }
verify_90() { checked 90 49152 1000; }

"${1:?name a part: devices, losses, failure or verify_SM}"
finish
