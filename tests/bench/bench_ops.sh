#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Kernels that memory limits, on arrays far larger than any cache: bytes moved per second, as a fraction of the streams measured in
# the same run, with the best kind of stores and with plain ones. The kernels are those that real plans choose, fusions included,
# taken from the step profile of three small graphs (ops_*.json). With --records the small cases of `cltrain bench ops` are timed as
# well; their arrays fit into caches. Options and environment: benchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

smallest=67108864 # bytes that a kernel must move per call to count here
graphs="rows loss update"
tiny_rows=() tiny_loss=() tiny_update=()
if $self_test; then
    smallest=1 graphs=update
    tiny_update=(model.hidden=[16,16])
fi

memory_limits() {
    if $self_test; then return; fi
    ours bench memory --seconds 4 --json "$work/memory.json"
    sample limits cltrain stream_gbs "$(json_number "$work/memory.json" stream_gbs)"
    sample limits cltrain plain_stream_gbs "$(json_number "$work/memory.json" plain_stream_gbs)"
}
# Prints lines "kernel variant shape ms GB/s calls" from the kernels of a profile, leaving out matrix
# products.
kernel_lines() {
    awk '/"kernels": \[/ { on = 1; next } on && /^ *\],?$/ { exit }
        on && /"[a-z_]+":/ { key = $1; gsub(/[":]/, "", key); value = $0; sub(/^[^:]*: /, "", value); gsub(/[",]*$|^"/, "", value)
            v[key] = value }
        on && /^ *},?$/ { if (v["kernel"] !~ /^(gemm|copy|read)/ && v["gb_per_s"] > 0)
            printf "%s\t%s\t%s\t%s\t%s\t%s\n",
                v["kernel"], v["variant"] == "" ? "-" : v["variant"], v["shape"] == "" ? "-" : v["shape"], v["ms"], v["gb_per_s"], v["calls"] }' "$1"
}
for ((round = 0; round < rounds; round++)); do
    for graph in $graphs; do
        wanted "$graph" || continue
        overrides="tiny_${graph}[@]"
        memory_limits
        ours bench step "$here/ops_$graph.json" ${!overrides+"${!overrides}"} --warmup 1 --steps 3 --profile --json "$work/step.json"
        kernel_lines "$work/step.json" >"$work/kernels"
        while IFS=$'\t' read -r kernel variant shape ms gbs calls; do
            [ "$(calc "$ms * 1e-3 / $calls * $gbs * 1e9 >= $smallest")" = 1 ] || continue
            sample "$graph: $kernel $variant $shape" cltrain gb_per_s "$gbs"
        done <"$work/kernels"
    done
done

best=$(middle limits cltrain stream_gbs) plain=$(middle limits cltrain plain_stream_gbs)
if [ -n "$best" ]; then
    echo "stream (triad) ${best} GB/s with the best kind of stores, ${plain:--} GB/s with plain ones"
    record limits cltrain stream_gbs "$best" GB/s
    record limits cltrain plain_stream_gbs "$plain" GB/s
fi
printf '%-82s %8s %8s %8s\n' kernel GB/s '% stream' '% plain'
lowest=
while IFS= read -r name; do
    gbs=$(middle "$name" cltrain gb_per_s) share= share_plain=
    [ -n "$best" ] && share=$(calc "100 * $gbs / $best") && record "$name" cltrain percent_of_stream "$share" %
    [ -n "$plain" ] && share_plain=$(calc "100 * $gbs / $plain") && record "$name" cltrain percent_of_plain_stream "$share_plain" %
    printf '%-82s %8.1f %8.5s %8.5s\n' "$name" "$gbs" "${share:--}" "${share_plain:--}"
    record "$name" cltrain gb_per_s "$gbs" GB/s
    if [ -n "$share" ]; then
        bar "$name" "${name%% [0-9]*}: % of the stream" "$share" ">=" 80
        if [ -z "$lowest" ] || [ "$(calc "$share < $lowest")" = 1 ]; then lowest=$share; fi
    fi
done < <(awk -F'\t' '$3 == "gb_per_s" && !seen[$1]++ { print $1 }' "$samples")
[ -n "$lowest" ] && bar all "large arrays: % of the stream, lowest kernel" "$lowest" ">=" 80

if [ "$records" != /dev/null ] && ! $quick; then
    pattern=()
    $self_test && pattern=(-t 'relu.large')
    ours bench ops ${pattern[@]+"${pattern[@]}"} --json "$work/ops.json"
    awk '/"name":/ { name = $2; gsub(/[",]/, "", name) } /"ms":/ { print name "\t" $2 }' "$work/ops.json" |
        while IFS=$'\t' read -r name ms; do record "case $name" cltrain ms "$ms" ms; done
fi
finish
