#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 8 ctest-optimise: no
#
# cltrain bench allreduce: right sums in every type and on every path (memory that ranks share, their own, a device's), alone and
# under mpirun; its columns, its record, and what it refuses. Says nothing of speed.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

bench=("$CLTRAIN" bench allreduce -b 1000 -e 200K -f 13 --runs 1)
# sizes RANKS OPTION...: three sizes, 1000, 13000 and 169000 bytes, each with a row, in $out.
sizes() {
    local ranks=$1
    shift
    expect_code 0 "${mpi[@]}" "$ranks" "${bench[@]}" "$@"
    expect_awk "three rows on $ranks ranks $*" '/^ *[0-9]/ { n++ } END { exit n != 3 }' "$out"
}

expect_code 0 "${bench[@]}"
expect_text '^# all_reduce, 1 rank on 1 host, one process, algorithm none'
for ranks in 2 3; do
    for type in f32 f16 bf16; do sizes $ranks --dtype $type; done
    sizes $ranks --own-memory
    expect_text "memory of the rank's own"
done
# Sums by the MPI library, in parts if there are many elements.
sizes 3 --own-memory --algorithm native
expect_text ', algorithm native,'
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" bench allreduce -b 72M -e 72M --runs 1 --own-memory --algorithm native
expect_awk 'one row, its sums right' '/^ *[0-9]/ && $8 == 0 { n++ } END { exit n != 1 }' "$out"
sizes 2 --staging --device cpu
expect_text 'device memory that local ranks share'
sizes 2 --staging --own-memory --device cpu
expect_text "device memory, by way of the rank's own memory"

for op in reduce_scatter all_gather; do
    sizes 3 --op $op --dtype bf16
    expect_text "^# $op, 3 ranks"
    sizes 3 --op $op --own-memory --bound
    sizes 2 --op $op --staging --device cpu
done
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" bench allreduce --op all_to_all
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" bench allreduce --op all_gather --native

sizes 2 --bound --native --json record.json
expect_awk 'bounds and ratios' '/^ *[0-9]/ && NF != 15 { bad = 1 } END { exit bad }' "$out"
for key in bound_ms native_best_ms memory_alone_gbs memory_together_gbs; do # with all digits, of which a row may show zeros
    values $key record.json >numbers
    expect_awk "$key in every row" '$1 <= 0 { bad = 1 } END { exit bad || NR != 3 }' numbers
done

expect_code 2 "$CLTRAIN" bench allreduce -b 1M -e 1K
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" bench allreduce --algorithm telepathy
expect_text 'possible here: auto, '
finish
