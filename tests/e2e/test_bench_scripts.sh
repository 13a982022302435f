#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
#
# The benchmark scripts work: every subject with tiny sizes and without peers writes records, a JSON file and tables; wrong options
# and a program that fails are noticed. The figures are ignored.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
command -v "${CC:-cc}" >/dev/null || skip_all "there is no C compiler"
bench=$CLTRAIN_SOURCE_DIR/tests/bench
export CLTRAIN BENCH_BUILD=$CLTRAIN_BUILD_DIR

# Two subjects in the short run.
subjects='gemm mlp'
all_cases && subjects='gemm ops mlp language shakespeare resnet memory loader volumes host monitor gpu cluster'
# shellcheck disable=SC2046 # an option for each
expect_code 0 bash "$bench/run.sh" --self-test --out results $(printf -- '--only-subject %s ' $subjects)
expect_file results/records.tsv results/results.json results/results.md
for subject in $subjects; do
    [ -f "$bench/bench_$subject.sh" ] || fail "there is no bench_$subject.sh"
    expect_awk "$subject measured nothing" -F'\t' -v s="$subject" '$1 == s && $5 > 0 { n++ } END { exit n == 0 }' results/records.tsv
    grep -q "^| $subject | .*[0-9]" results/results.md || fail "$subject is not in the tables"
done
expect_awk "a line of the JSON file is not a record" 'NR > 1 && !/^\]$/ && !/^  \{"subject": "[a-z0-9]+", "case": ".*", "side": ".*", "quantity": ".*", "value": (null|[-+.0-9e]+), "unit": ".*", "setting": ".*"\},?$/ { bad = 1 }
    END { exit bad }' results/results.json

expect_code 2 bash "$bench/bench_mlp.sh" --self-tset
expect_code 2 bash "$bench/run.sh" --only-subject nothing --out none
printf '#!/bin/sh\nexit 7\n' >broken
chmod +x broken
CLTRAIN=$work/broken expect_code 1 bash "$bench/bench_mlp.sh" --self-test
# Peers that are named but missing are left out, with the reason.
BENCH_PYTHON=/nonexistent BENCH_LLMC=/nonexistent CLTRAIN=$work/broken expect_code 1 bash "$bench/bench_language.sh" --quick
expect_text 'SKIP PyTorch \(BENCH_PYTHON\): /nonexistent has no PyTorch' 'SKIP llm.c: '
finish
