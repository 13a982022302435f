#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# scripts/device_report.sh in its quick form on a CPU device: every step goes well and leaves its record; a step that fails is
# named, does not stop the others and makes the exit code 1.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
script=$CLTRAIN_SOURCE_DIR/scripts/device_report.sh
limit=900

expect_code 2 "$script" --minutes soon
expect_code 2 "$script" --text missing
expect_absent device-report
"$CLTRAIN" devices 2>/dev/null | grep -q -w cpu || { note_skip 'there is no OpenCL device of type cpu'; finish; }

expect_code 0 "$script" --quick --device cpu --out report --text "$CLTRAIN_SOURCE_DIR/README.md"
for record in memory verify-quick verify gemm-f32 gemm-f16 gemm-bf16 step-f32 step-f16 step-bf16 ops; do
    expect_file "report/$record.json"
done
expect_file report/verify.xml report/run/metrics.jsonl
expect_awk 'a step is missing in the summary' '/: ok, / { n++ } /FAILED|cut off|left out/ { bad = 1 } END { exit bad || n != 14 }' report/summary.txt
expect_code 2 "$script" --quick --device cpu --out report

printf '#!/bin/sh\n[ "$1" != doctor ] && [ "$1" != bench ] || { echo broken; exit 7; }\nexit 0\n' >broken
chmod +x broken
CLTRAIN=$work/broken expect_code 1 "$script" --quick --device cpu --out other
expect_text '^doctor: FAILED with code 7: broken$' '^verify: ok' '^9 steps failed$'
finish
