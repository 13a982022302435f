#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# One allocation inside of a library that reads data fails (alloc_shim.c): the command ends with 70 and says
# that memory was missing, never with damaged data, or it does not need this memory, and ends as without a
# fault.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
shim=$CLTRAIN_BUILD_DIR/tests/alloc_shim.so
[ -f "$shim" ] || skip_all "the shim was not built"
if nm "$CLTRAIN" 2>/dev/null | grep -q __asan_init; then skip_all "sanitizers take the place of the shim's functions"; fi

"$CLTRAIN_BUILD_DIR/tests/make_images" jpegs --count 2 --classes 1 --size 40,40 || fail 'no images were made'
mkdir -p pngs/a
# 8 x 8 pixels of gray
base64 -d >pngs/a/1.png <<'TEXT'
iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAUElEQVR4nGNgYGRiZmFlY2cQEBQSFhEVE2dQUFRSVlFVU2cwMDQyNjE1M2dwcHRy
dnF1c2cICAwKDgkNC2dISExKTklNS2coKCwqLiktKwcAWYcO4apYRogAAAAASUVORK5CYII=
TEXT
cp pngs/a/1.png pngs/a/2.png
{ be32 0x00000801 && be32 5000 && bytes 5000 4 10; } | gzip -n >labels.idx.gz
# each LIBRARY OPERAND: runs data verify of the operand, with one failing allocation of the library at a
# time, up to 24 of them; "": allocations of the program, including those for libpng.
each() {
    local library=$1 operand=$2 n code failed=0 last
    local it=(guarded env LD_PRELOAD="$shim")
    if [ -n "$library" ]; then it+=(CLT_ALLOC_SHIM_LIBRARY="$library"); fi
    expect_code 0 "$CLTRAIN" data verify "$operand"
    rm -f count
    "${it[@]}" CLT_ALLOC_SHIM=0 CLT_ALLOC_SHIM_LOG="$work/count" "$CLTRAIN" data verify "$operand" >"$out" 2>&1 </dev/null
    last=$(cat count)
    if [ "$last" -ge 1 ]; then pass; else fail "$library makes $last allocations"; fi
    for ((n = 1; n <= last; n += last / 24 + 1)); do
        code=0
        "${it[@]}" CLT_ALLOC_SHIM=$n "$CLTRAIN" data verify "$operand" >"$out" 2>&1 </dev/null || code=$?
        case $code in
        0) pass ;;
        70) failed=$((failed + 1)) && if grep -q 'memory\|making a JPEG decoder' "$out"; then pass; else fail "$library, allocation $n: 70, and no word of memory"; fi ;;
        *) fail "$library $operand, allocation $n of $last: code $code" ;;
        esac
        reject_text 'BAD '
    done
    if [ $failed -gt 0 ]; then pass; else fail "$library $operand: no allocation was missed"; fi
}
each libjpeg jpegs
each '' pngs
each libz labels.idx.gz
finish
