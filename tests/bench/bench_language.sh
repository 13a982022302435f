#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A training step of language models in f32 with AdamW and clipping: GPT-2 124M, a Llama of SmolLM2-135M's
# size with all weights trained, or only adapters of rank 16 for all linear layers of its blocks (LoRA), and
# BERT base with both heads of its pre-training. cltrain, a new PyTorch, Debian's PyTorch for GPT-2, each at
# its best settings, and llm.c for GPT-2; time and peak resident set. The sides run in turns. Options and
# environment: benchlib.sh; peers: torchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
. "$here/torchlib.sh"

sizes="gpt2:4:64 gpt2:4:256 gpt2:1:1024 llama:4:256 lora:4:256 bert:8:128"
if $quick; then sizes="gpt2:4:64"; fi
tiny=()
if $self_test; then
    sizes="gpt2:2:16 llama:2:16 lora:2:16 bert:2:16"
    tiny=(model.layers=1 model.heads=2 model.channels=32 model.vocab=256)
fi
# choose MODEL: its config, the peer's arguments for it, and our overrides
choose() {
    case $1 in
    gpt2) config=$root/configs/gpt2-124m.json label= peer_size=() ours_more=() ;;
    llama | lora)
        config=$root/configs/llama-135m.json label="$1, "
        peer_size=(--layers 30 --heads 9 --kv-heads 3 --channels 576 --inner 1536 --vocab 49152)
        ours_more=()
        if $self_test; then ours_more=(model.kv_heads=1); fi
        if [ "$1" = lora ]; then
            peer_size+=(--lora-rank 16)
            ours_more+=(model.lora_rank=16 model.lora_targets=all-linear)
        fi
        ;;
    bert)
        config=$root/configs/bert-base-phase1.json label="bert, "
        peer_size=(--vocab 30522 --inner 3072)
        ours_more=(model.dropout=0 optimizer.type=adamw)
        ;;
    esac
}

llmc=
find_llmc() {
    if $self_test; then return; fi
    if [ ! -f "${BENCH_LLMC:-}/train_gpt2.c" ]; then skip llm.c "BENCH_LLMC names no checkout of llm.c"; return; fi
    # The flags of its Makefile.
    if helper peer_llmc -I"$BENCH_LLMC" -Ofast -march=native -fopenmp -Wno-unused-result -lm; then
        llmc=$(git -C "$BENCH_LLMC" rev-parse --short HEAD 2>/dev/null || echo unknown)
    else
        skip llm.c "it does not compile with OpenMP: $(tail -n 1 "$work/peer_llmc.log")"
    fi
}

measure_ours() { # case, batch, context, steps
    our_step "$1" "$config" data.micro_batch="$2" data.global_batch="$2" model.context="$3" ${tiny[@]+"${tiny[@]}"} \
        ${ours_more[@]+"${ours_more[@]}"} --warmup 1 --steps "$4"
}
measure_llmc() { # case, batch, context, steps
    watched step env OMP_NUM_THREADS="$threads" "$tools/peer_llmc" "$2" "$3" "$4" 1.0 || return 0
    sample "$1" llm.c step_ms "$(awk '$1 == "step_ms" && n++ > 0 { print $2 }' "$work/out" | median)" # the first one touches memory
    sample "$1" llm.c peak_rss_mib "$rss_mib"
}

# row CASE SIDE SETTING
row() {
    local ms rss ratio=
    ms=$(middle "$1" "$2" step_ms) rss=$(middle "$1" "$2" peak_rss_mib)
    [ -n "$ms" ] || return 0
    ratio=$(calc "$ms / $(middle "$1" cltrain step_ms)")
    printf '%-18s %-26s %10.1f ms %8.2fx %9.0f MiB  %s\n' "$1" "$2" "$ms" "$ratio" "$rss" "$3"
    record "$1" "$2" step_ms "$ms" ms "$3"
    record "$1" "$2" peak_rss_mib "$rss" MiB "$3"
    record "$1" "$2" ratio_to_cltrain "$ratio" x "$3"
}
over() { # case, quantity, side: our value over the side's
    local a b
    a=$(middle "$1" cltrain "$2") b=$(middle "$1" "$3" "$2")
    [ -n "$a" ] && [ -n "$b" ] && calc "$a / $b"
}

measure_case() { # model, batch, context
    local model=$1 net=$1 name steps=5 new_name= new_env= new_args= old_name= old_env= old_args= arguments
    choose "$1"
    shift
    name="${label}B=$1 T=$2"
    wanted "$name" || return 0
    [ "$2" -ge 256 ] && steps=3
    [ "$model" = lora ] && net=llama
    arguments=(--model "$net" --batch "$1" --context "$2" --clip 1 ${peer_size[@]+"${peer_size[@]}"})
    if torch_best new "$name" "$net" "${arguments[@]}"; then new_name=$best_name new_env=$best_environment new_args=$best_arguments; fi
    if [ "$model" = gpt2 ] && torch_best old "$name" gpt2 "${arguments[@]}"; then old_name=$best_name old_env=$best_environment old_args=$best_arguments; fi
    for ((round = 0; round < rounds; round++)); do
        measure_ours "$name" "$1" "$2" $steps
        # shellcheck disable=SC2086
        [ -n "$new_name" ] && torch_sample "$torch_new" "$name" "PyTorch, new" "$new_env" "${arguments[@]}" $new_args --warmup 2 --steps $steps
        # shellcheck disable=SC2086
        [ -n "$old_name" ] && torch_sample "$torch_old" "$name" "PyTorch, old" "$old_env" "${arguments[@]}" $old_args --warmup 2 --steps $steps
        # llm.c has one bar, at the small size, because it is slow.
        [ -n "$llmc" ] && [ "$model" = gpt2 ] && { [ "$2" -le 64 ] || { ! $quick && [ "$round" = 0 ]; }; } && measure_llmc "$name" "$1" "$2" 3
    done
    row "$name" cltrain "$("$CLTRAIN" version | head -n 1)"
    row "$name" "PyTorch, new" "${torch_new_has%% *}: $new_name"
    row "$name" "PyTorch, old" "${torch_old_has%% *}: $old_name"
    row "$name" llm.c "commit $llmc, -Ofast -march=native -fopenmp"
    bar "$name" "$name: step time over the newest PyTorch's best" "$(over "$name" step_ms "PyTorch, new")" "<=" \
        "$([ "$net" = llama ] && echo 0.9 || echo 1)"
    bar "$name" "$name: peak resident set over the newest PyTorch's" "$(over "$name" peak_rss_mib "PyTorch, new")" "<=" 1
    [ "$model" = gpt2 ] || return 0
    bar "$name" "$name: step time over tuned PyTorch ${torch_old_has%% *}'s" "$(over "$name" step_ms "PyTorch, old")" "<=" 0.8696
    [ "$2" -le 64 ] && bar "$name" "$name: step time over llm.c's" "$(over "$name" step_ms llm.c)" "<=" 0.2222
    bar "$name" "$name: peak resident set over tuned PyTorch ${torch_old_has%% *}'s" "$(over "$name" peak_rss_mib "PyTorch, old")" "<=" 1
}

torch_new_has= torch_old_has=
torch_find
find_llmc
for size in $sizes; do
    IFS=: read -r model batch context <<<"$size"
    measure_case "$model" "$batch" "$context"
done
finish
