#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Matrix products in f32: cltrain compared with the arithmetic limit measured in the same process, and with OpenBLAS at its best
# settings; the two sides run in turns. Squares in the three layouts of training, and the products of GPT-2 124M at 256 and 4096
# tokens: forward NT, gradient of the input NN, gradient of the weight TN. Options and environment: benchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

layers="qkv:768:2304 proj:768:768 fc:768:3072 fcproj:3072:768 head:768:50257" # name:in:out
squares="512 1024 2048 4096"
tokens="256 4096"
seconds=0.3
if $quick; then squares="512 1024 2048" tokens=256; fi
if $self_test; then squares=32 tokens= seconds=0.01; fi

# Cases: lines "name m n k layout group"; one process measures the cases of a group before the other side
# takes its turn.
cases() {
    local s l t layer in out name
    for s in $squares; do
        for l in nn nt tn; do echo "square$s.$l $s $s $s $l square$s"; done
    done
    for t in $tokens; do
        for layer in $layers; do
            IFS=: read -r name in out <<<"$layer"
            echo "gpt2.$t.$name.forward $t $out $in nt gpt2.$t.$name"
            echo "gpt2.$t.$name.dx $t $in $out nn gpt2.$t.$name"
            echo "gpt2.$t.$name.dw $out $in $t tn gpt2.$t.$name"
        done
    done
}
cases | while read -r line; do wanted "$line" && echo "$line"; done >"$work/cases"
[ -s "$work/cases" ] || { echo "no case is called '$only'"; exit 2; }

# Finds OpenBLAS's fastest kernels on this machine and forces them, because OpenBLAS does not know every
# CPU.
openblas= core=
find_openblas() {
    local c g best=
    if $self_test; then return; fi
    # shellcheck disable=SC2046
    if ! helper peer_openblas $(pkg-config --cflags --libs openblas 2>/dev/null || echo -lopenblas); then
        skip OpenBLAS "its headers or library are not installed (Debian: libopenblas-openmp-dev)"
        return
    fi
    for c in Haswell Zen SkylakeX Cooperlake; do
        case $c in SkylakeX | Cooperlake) has_cpu_flag avx512f || continue ;; esac
        g=$(OPENBLAS_CORETYPE=$c run_openblas 0.2 1024x1024x1024:nt | awk '!/^#/ { print $6 }')
        [ -n "$g" ] || continue
        printf '  trying OpenBLAS with OPENBLAS_CORETYPE=%s: %s GFLOP/s at 1024\n' "$c" "$g"
        record square1024.nt OpenBLAS trial_gflops "$g" GFLOP/s "OPENBLAS_CORETYPE=$c"
        if [ -z "$best" ] || [ "$(calc "$g > $best")" = 1 ]; then best=$g core=$c; fi
    done
    openblas=$(OPENBLAS_CORETYPE=$core run_openblas 0.01 8x8x8:nn | sed -n 's/^# //p')
    echo "peer: $openblas, OPENBLAS_CORETYPE=$core"
}
run_openblas() {
    # shellcheck disable=SC2086
    OPENBLAS_NUM_THREADS=$threads OMP_NUM_THREADS=$threads ${BENCH_GATE:-} "$tools/peer_openblas" "$@" 2>/dev/null
}

# A group of one size in all layouts takes one process on our side; any other group takes one process per
# layout.
measure_ours() { # group
    local layout
    if [ "$(awk -v g="$1" '$6 == g { print $2, $3, $4 }' "$work/cases" | sort -u | wc -l)" = 1 ] &&
        [ "$(grep -c " $1\$" "$work/cases")" = 3 ]; then
        measure_layouts "$1" "nn nt tn"
    else
        for layout in nn nt tn; do measure_layouts "$1" $layout; done
    fi
}
measure_layouts() { # group, layouts
    local name m n k l g sizes one=()
    sizes=$(awk -v g="$1" -v l="$2" '$6 == g && index(l, $5) && !seen[$2, $3, $4]++ { printf "%s%dx%dx%d", s, $2, $3, $4; s = "," }' "$work/cases")
    [ -n "$sizes" ] || return 0
    case $2 in *' '*) ;; *) one=(--layout "$2") ;; esac
    ours bench gemm ${one[@]+"${one[@]}"} --seconds "$seconds" --sizes "$sizes" --json "$work/gemm.json"
    peak=$(json_number "$work/gemm.json" fma_peak_gflops)
    sample limits cltrain fma_peak_gflops "$peak"
    awk '/"(m|n|k)":/ { gsub(/[^0-9]/, "", $2); size = size " " $2 } /"t[ab]":/ { layout = layout ($2 ~ /true/ ? "t" : "n") }
        /"gflops":/ { print layout size, $2 + 0; size = layout = "" }' "$work/gemm.json" >"$work/figures"
    while read -r name m n k l _; do
        case " $2 " in *" $l "*) ;; *) continue ;; esac
        g=$(awk -v s="$l $m $n $k" 'index($0, s " ") == 1 { print $5 }' "$work/figures")
        [ -n "$g" ] || { echo "FAIL: no figure for $name"; failures=$((failures + 1)); continue; }
        sample "$name" cltrain gflops "$g"
        sample "$name" cltrain percent_of_peak "$(calc "100 * $g / $peak")"
    done < <(awk -v g="$1" '$6 == g' "$work/cases")
}
measure_openblas() { # group
    local list name m n k l
    list=$(awk -v g="$1" '$6 == g { printf "%dx%dx%d:%s ", $2, $3, $4, $5 }' "$work/cases")
    # shellcheck disable=SC2086
    OPENBLAS_CORETYPE=$core run_openblas "$seconds" $list >"$work/blas"
    while read -r name m n k l _; do
        sample "$name" OpenBLAS gflops "$(awk -v s="$m $n $k $l" 'index($0, s " ") == 1 { print $6 }' "$work/blas")"
    done < <(awk -v g="$1" '$6 == g' "$work/cases")
}

find_openblas
for ((round = 0; round < rounds; round++)); do
    for group in $(awk '!seen[$6]++ { print $6 }' "$work/cases"); do
        measure_ours "$group"
        [ -n "$openblas" ] && measure_openblas "$group"
    done
done

peak=$(middle limits cltrain fma_peak_gflops)
printf '\nFMA peak %.1f GFLOP/s (median of its measurements in this run)\n' "$peak"
record limits cltrain fma_peak_gflops "$peak" GFLOP/s
printf '%-26s %10s %8s %10s %8s\n' product cltrain "% peak" OpenBLAS ratio
while read -r name _; do
    o=$(middle "$name" cltrain gflops) p=$(middle "$name" cltrain percent_of_peak) b=$(middle "$name" OpenBLAS gflops)
    ratio=
    [ -n "$b" ] && ratio=$(calc "$o / $b")
    printf '%-26s %10.1f %8.1f %10s %8s\n' "$name" "$o" "$p" "${b:--}" "${ratio:--}"
    record "$name" cltrain gflops "$o" GFLOP/s
    record "$name" cltrain percent_of_peak "$p" %
    [ -n "$b" ] && record "$name" OpenBLAS gflops "$b" GFLOP/s "$openblas, OPENBLAS_CORETYPE=$core"
    [ -n "$ratio" ] && record "$name" cltrain ratio_to_openblas "$ratio" x && echo "$name $ratio" >>"$work/ratios"
done <"$work/cases"

echo
for s in $squares; do
    for l in nn nt tn; do
        limit=80
        [ "$s" = 512 ] && limit=75
        wanted "square$s.$l" && bar "square$s.$l" "$s $l: % of the FMA peak" "$(middle "square$s.$l" cltrain percent_of_peak)" ">=" $limit
    done
done
for t in $tokens all; do
    for what in mean worst; do
        [ -s "$work/ratios" ] || continue
        value=$(awk -v t="$t" -v what="$what" '$1 ~ /^gpt2\./ && (t == "all" || index($1, "gpt2." t ".") == 1) {
            n++; sum += log($2); if (n == 1 || $2 < low) low = $2 } END { if (n) print what == "mean" ? exp(sum / n) : low }' "$work/ratios")
        text="GPT-2 products, $t tokens: ratio to OpenBLAS, geometric mean" limit=1
        [ $what = worst ] && text="GPT-2 products, $t tokens: ratio to OpenBLAS, worst" limit=0.75
        bar "gpt2.$t" "$text" "$value" ">=" $limit
    done
done
finish
