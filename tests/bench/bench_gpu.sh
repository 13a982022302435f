#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Benchmarks on a GPU: matrix products in f16, bf16 and f32 and the training step of GPT-2 124M in the three precisions, compared
# with PyTorch on the same card (BENCH_PYTHON with CUDA): torch.matmul, and the step eager in f32 and compiled with flash attention
# under autocast. BENCH_DEVICE names cltrain's device (default gpu), BENCH_TORCH_DEVICE PyTorch's (cuda; cpu only to try this
# script), BENCH_SIZES and BENCH_CASES (batch:context) other sizes. Without a GPU the script says that there is nothing to measure.
# Options and environment: benchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

device=${BENCH_DEVICE:-gpu} torch_device=${BENCH_TORCH_DEVICE:-cuda}
config=$root/configs/gpt2-124m.json
sizes=${BENCH_SIZES:-4096 8192} dtypes="bf16 f16 f32" layouts="nn nt tn" steps=10 warmup=5 seconds=1
cases=${BENCH_CASES:-4:1024 16:1024} # batch:context
tiny=()
if $quick; then sizes=${BENCH_SIZES:-8192} cases=${BENCH_CASES:-8:1024}; fi
if $self_test; then
    device=cpu sizes=32 cases=2:16 steps=2 warmup=1 seconds=0.01 dtypes="bf16 f32" layouts=nt
    tiny=(model.layers=1 model.heads=2 model.channels=32 model.vocab=256)
fi
# The limits of the card have no bars; what counts is the peer on the same card in the same run.
if ! "$CLTRAIN" devices 2>/dev/null | grep -q -E "^[0-9]+:[0-9]+ +${device%%:*}|${device}"; then
    skip cltrain "no device called '$device'"
    finish
fi
python=${BENCH_PYTHON:-}
if ! $self_test && [ -n "$python" ] && [ "$torch_device" = cuda ] &&
    ! "$python" "$here/peer_torch.py" --probe 2>/dev/null | grep -q -w cuda; then
    skip PyTorch "$python has no PyTorch with CUDA"
    python=
elif [ -z "$python" ]; then
    skip PyTorch "BENCH_PYTHON names no interpreter"
fi
if $self_test; then python=; fi

# torch ARGUMENTS...: one process; its JSON line in $work/torch.json
torch() {
    watched '{' "$python" "$here/peer_torch.py" --device "$torch_device" --threads "$threads" "$@" &&
        grep '^{' "$work/out" | tail -n 1 >"$work/torch.json"
}

# --- products ---
measure_product() { # size, dtype, layout
    local name="gemm $2 $1 $3" g repeat=$((4 + 1024 / $1 + 8192 / $1 * 2)) storage=$2
    wanted "$name" || return 0
    ours bench gemm --device "$device" --dtype "$2" --layout "$3" --sizes "$1" --seconds $seconds --json "$work/gemm.json"
    g=$(json_number "$work/gemm.json" gflops)
    [ -n "$g" ] || { echo "FAIL: no figure for $name"; failures=$((failures + 1)); return 0; }
    sample "$name" cltrain gflops "$g"
    record "$name" cltrain backend - - "$(sed -n -E 's/^ *"backend": "([^"]*)".*/\1/p' "$work/gemm.json" | head -n 1)"
    [ -n "$python" ] || return 0
    if torch --model matmul --sizes "$1-$1-$1" --dtype "$storage" --layout "$3" --repeat $repeat --steps 6 --warmup 2; then
        sample "$name" PyTorch gflops "$(json_line "$work/torch.json" gflops)"
    else
        echo "  $name: PyTorch failed: $(tail -n 1 "$work/err")"
    fi
}
product_row() { # size, dtype, layout
    local name="gemm $2 $1 $3" o p ratio=
    wanted "$name" || return 0
    o=$(middle "$name" cltrain gflops) p=$(middle "$name" PyTorch gflops)
    [ -n "$p" ] && ratio=$(calc "$o / $p")
    printf '%-26s %12.0f GFLOP/s  PyTorch %12s  ratio %8s\n' "$name" "$o" "${p:--}" "${ratio:--}"
    record "$name" cltrain gflops "$o" GFLOP/s
    [ -n "$p" ] || return 0
    record "$name" PyTorch gflops "$p" GFLOP/s torch.matmul
    record "$name" cltrain ratio_to_pytorch "$ratio" x
    case $2:$1 in f32:*) ;; *:8192) bar "$name" "$name: over torch.matmul on the same card" "$ratio" ">=" 0.55 ;; esac
}

# --- GPT-2 124M ---
measure_step() { # batch, context, mode
    local name="gpt2 $3 B=$1 T=$2"
    wanted "$name" || return 0
    our_step "$name" "$config" --device "$device" data.micro_batch="$1" data.global_batch="$1" model.context="$2" precision.mode="$3" \
        ${tiny[@]+"${tiny[@]}"} --warmup $warmup --steps $steps
    sample "$name" cltrain device_mib "$(calc "$(json_number "$work/step.json" device_bytes) / 1048576")"
    [ -n "$python" ] || return 0
    local form
    for form in eager compile; do
        if torch --model gpt2 --batch "$1" --context "$2" --dtype "$3" --mode $form --warmup $warmup --steps $steps; then
            sample "$name" "PyTorch, $form" step_ms "$(json_line "$work/torch.json" step_ms)"
            sample "$name" "PyTorch, $form" device_mib "$(json_line "$work/torch.json" device_mib)"
        else
            echo "  $name: PyTorch, $form: failed: $(tail -n 1 "$work/err")"
        fi
    done
}
step_row() { # batch, context, mode
    local name="gpt2 $3 B=$1 T=$2" side ms
    wanted "$name" || return 0
    for side in cltrain "PyTorch, eager" "PyTorch, compile"; do
        ms=$(middle "$name" "$side" step_ms)
        [ -n "$ms" ] || continue
        printf '%-24s %-18s %10.2f ms %10.0f tokens/s %10s MiB\n' "$name" "$side" "$ms" "$(calc "$1 * $2 * 1000 / $ms")" \
            "$(middle "$name" "$side" device_mib)"
        record "$name" "$side" step_ms "$ms" ms "SDPA, clipping 1, AdamW"
        record "$name" "$side" tokens_per_s "$(calc "$1 * $2 * 1000 / $ms")" 1/s
        record "$name" "$side" device_mib "$(middle "$name" "$side" device_mib)" MiB
        [ "$side" = cltrain ] || record "$name" cltrain "step time over $side" "$(calc "$(middle "$name" cltrain step_ms) / $ms")" x
    done
}

each() { # function of a case for each product or step
    local s d l c
    case $1 in
    *product*) for s in $sizes; do for d in $dtypes; do for l in $layouts; do "$1" "$s" "$d" "$l"; done; done; done ;;
    *) for c in $cases; do for d in $dtypes; do "$1" "${c%:*}" "${c#*:}" "$d"; done; done ;;
    esac
}
for ((round = 0; round < rounds; round++)); do
    each measure_product
    each measure_step
done
each product_row
each step_row
finish
