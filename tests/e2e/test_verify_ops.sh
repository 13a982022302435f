#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-parts: attention gemm losses rest
# ctest-cost: 60
#
# The checker's small cases on the default device, in every mode: nothing fails, and every name on the list is accounted for.
# Compiling takes nearly all of the time, so the ops are divided into parts by name, which keeps ops that share programs together;
# one part runs every op that no line below names, so that a new op is never left out.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
part=${1:?name a part: attention, gemm, losses or rest}

part_of() {
    case $1 in
    attention | matmul | kv_cache | softmax | dropout) echo attention ;;
    gemm | linear) echo gemm ;;
    cross_entropy | linear_cross_entropy | bce_with_logits | mse | l1 | log_softmax) echo losses ;;
    *) echo rest ;;
    esac
}

"$CLTRAIN" verify --small --mode list >names
expect_awk "the list of names is short or has doubles" '{ n++; bad += seen[$0]++ } END { exit n < 300 || bad }' names
limit=300 # seconds of one op: each of its kernels may have to be compiled
mine=0
for subject in $(sed 's/\..*//' names | sort -u); do
    [ "$(part_of "$subject")" = "$part" ] || continue
    mine=$((mine + 1))
    expect_code 0 "$CLTRAIN" verify --small -t "$subject.*" --json "$subject.json" --junit "$subject.xml"
    expect_text 'seed [0-9]+'
    expect_awk "$subject: a case on the list was neither passed nor skipped, or some failed" \
        'FNR == NR { listed += index($0, "'"$subject"'.") == 1; next }
         /^[0-9]+ passed, 0 failed, [0-9]+ skipped$/ { ran = $1 + $5; passed = $1 }
         END { exit !(listed > 0 && ran == listed && passed > 0) }' names "$out"
    expect_awk "$subject.json and $subject.xml do not hold every result" \
        '/"name"/ { json++ } /<testcase / { xml++ } END { exit !(json > 0 && json == xml) }' "$subject.json" "$subject.xml"
done
if [ "$mine" -gt 0 ]; then pass; else fail "no op belongs to the part '$part'"; fi
finish
