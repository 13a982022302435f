#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# Tensors may have more than 2^32 elements, which no test can allocate. So clang-tidy finds each product of
# 32 bits in a kernel, or in a header of kernels, that becomes an offset of 64:
# tests/golden/narrow_products.txt lists the lines whose products are bounded (a place in a tile, a row, a
# part), and any other line needs a cast of a factor to ulong. Indices of the type idx_t are checked in
# their wide form. Versions of clang-tidy find different lines: only the version that made the list, which
# its first line names, checks whether a line of it is gone.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
kernels=$CLTRAIN_BUILD_DIR/kernels known=$CLTRAIN_SOURCE_DIR/tests/golden/narrow_products.txt
tidy=
for name in clang-tidy clang-tidy-19 clang-tidy-18 clang-tidy-17 clang-tidy-16 clang-tidy-15 clang-tidy-14; do
    if command -v $name >/dev/null; then tidy=$name; break; fi
done
[ -n "$tidy" ] || skip_all 'clang-tidy is not installed'
# tidy_file FILE OPTION...: clang-tidy's messages for a kernel file
tidy_file() {
    "$tidy" --quiet --header-filter='\.clh$' --checks='-*,bugprone-implicit-widening-of-multiplication-result' "$1" -- \
        -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -I"${1%/*}" -target spir64 "${@:2}" 2>&1
}
echo 'kernel void probe(global float *x, int a, int b) { x[a * b] = 0; }' >probe.cl
said=$(tidy_file "$work/probe.cl") && ! grep -q 'error:' <<<"$said" || skip_all "$tidy does not read OpenCL C: $(head -n 1 <<<"$said")"

# narrow FOLDER FILE: the lines of a kernel file of the folder with such products, in the form for CPUs and in the one for GPUs.
narrow() {
    local lanes
    for lanes in 1 64; do
        [ $lanes = 1 ] || grep -q '^#ifndef LS' "$1/$2" || continue
        tidy_file "$1/$2" -DWIDE=1 -DLS=$lanes
    done | sed -n 's/^\([^ :]*\):\([0-9]*\):[0-9]*: warning: .*multiplication.*/\1 \2/p' | sort -u |
        while read -r at line; do echo "${at##*/}: $(sed -n "${line}s/^ *//p" "$at")"; done
}
for file in "$kernels"/*.cl; do narrow "$kernels" "${file##*/}"; done | sort -u >found
if [ "$(wc -l <found)" -ge 100 ]; then pass; else fail "clang-tidy found $(wc -l <found) products only: it has not read the kernels"; fi
grep -v '^#' "$known" | sort -u >listed
comm -23 found listed >unknown
comm -13 found listed >gone
if [ -s unknown ]; then fail "offsets of 32 bits that tests/golden/narrow_products.txt does not list: $(cat unknown)"; else pass; fi
version=$("$tidy" --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p' | head -n 1)
if ! head -n 1 "$known" | grep -q "clang-tidy $version\b"; then
    note_skip "lines of tests/golden/narrow_products.txt that are gone: the list is not of clang-tidy $version"
elif [ -s gone ]; then fail "lines of tests/golden/narrow_products.txt that no kernel has any more: $(cat gone)"; else pass; fi

# A removed cast is detected, in a kernel file and in a header that a kernel file includes.
# takes_away CAST FILE KERNELS: the product after the cast in FILE is found when KERNELS is read
takes_away() {
    rm -rf edited
    cp -r "$kernels" edited
    sed "s/(ulong)$1/$1/" "$kernels/$2" >"edited/$2"
    narrow edited "$3" | comm -23 - found >unknown
    if grep -q "^$2: .*$1" unknown; then pass; else fail "$2: a product without its cast was not found"; fi
}
takes_away 'z \* splits \* m \* n' gemm_sum.cl gemm_sum.cl
takes_away 'q \* m->tk' attention_lane.clh attention_lane.cl
finish
