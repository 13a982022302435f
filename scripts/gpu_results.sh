#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Inserts the page that scripts/device_report.sh made on a device into docs/measurements.md, as a section of
# the chapter about GPUs. The section of an earlier report on a device of the same name is replaced;
# everything else stays as it is.
#
# usage: scripts/gpu_results.sh REPORT.md [MEASUREMENTS.md]
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
export LC_ALL=C
report=${1:-} results=${2:-$(dirname "${BASH_SOURCE[0]}")/../docs/measurements.md}
[ -r "$report" ] && [ -w "$results" ] || { sed -n 's/^# \(usage: .*\)/\1/p' "${BASH_SOURCE[0]}" >&2 && exit 2; }
name=$(sed -n '1s/^# \(.*\): device report$/\1/p' "$report")
[ -n "$name" ] || { echo "gpu_results.sh: '$report' is not a page of device_report.sh: its first line names no device" >&2 && exit 2; }
grep -q '^## GPU$' "$results" || { echo "gpu_results.sh: '$results' has no chapter '## GPU'" >&2 && exit 2; }
# Headings of the page become two levels deeper. A new section becomes the last one of the chapter.
awk -v title="### On $name" '
    function put() {
        if (blank == 0) print ""
        print title
        for (i = 2; i <= lines; i++) print page[i]
        done = 1
    }
    NR == FNR { lines = FNR; page[FNR] = $0; sub(/^#/, "###", page[FNR]); next }
    /^### / || /^## / { old = $0 == title }
    /^## / { if (chapter && !done) { put(); print "" } chapter = $0 == "## GPU" }
    old { next }
    { print; blank = $0 == "" }
    END { if (!done) put() }' "$report" "$results" >"$results.new"
mv "$results.new" "$results"
echo "$results: the section 'On $name'"
