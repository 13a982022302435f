#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One command from a fresh Debian 12, Ubuntu 22.04 or 24.04 to the test results: installs what is missing, builds, runs the
# tests. Without options it runs the labels quick and comm of an optimised build.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'TEXT'
usage: scripts/test.sh [--preset dev|release|ci] [--label NAME]... [--jobs N] [-- CTEST_OPTION...]
  --preset   dev: AddressSanitizer and UBSan, warnings are errors; release (default); ci: release, warnings are errors
  --label    quick, full, comm, long or runtimes; may be given more than once (default: quick and comm). runtimes tries other
             OpenCL runtimes, in the folder that CLTRAIN_RUNTIMES names and scripts/runtimes.sh makes; it takes up to an hour
  --jobs     tests that run at the same time (default: one more than there are cores, for some wait; at most 6)
TEXT
}

preset=release labels='' jobs=$(($(nproc) + 1))
[ "$jobs" -le 6 ] || jobs=6
while [ $# -gt 0 ]; do
    case $1 in
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    --label) labels=${labels:+$labels|}${2:?--label needs a name}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    --) shift; break ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done
folder=$(preset_folder "$preset")

install_packages "${CLTRAIN_PACKAGES[@]}" "${CLTRAIN_MPI_PACKAGES[@]}" "${CLTRAIN_TEST_PACKAGES[@]}" -- "${CLTRAIN_OPTIONAL_PACKAGES[@]}"
build "$preset" all -DBUILD_TESTING=ON -DCLTRAIN_MPI=ON
chosen=(--preset "$preset" -L "^(${labels:=quick|comm})\$" "$@")

# duration NAMES: estimates how long these tests take: from the seconds that ctest recorded in earlier runs
# in this folder, otherwise from the tests' `ctest-cost`, which are seconds on a fast machine with empty
# caches.
duration() {
    cat "$folder/tests/CTestTestfile.cmake" "$folder/Testing/Temporary/CTestCostData.txt" 2>/dev/null | awk -v jobs="$jobs" '
        NR == FNR { wanted[$0]; next }
        /^set_tests_properties\(/ {
            name = $1
            gsub(/set_tests_properties\(|"|\[=*\[|\]=*\]/, "", name)
            if (match($0, /COST "[0-9]+"/)) seconds[name] = substr($0, RSTART + 6, RLENGTH - 7)
        }
        NF == 3 && $2 ~ /^[0-9]+$/ && $3 > 0 && $1 in wanted { seconds[$1] = $3; remembered++ }
        END {
            for (name in wanted) { sum += name in seconds && seconds[name] > 0 ? seconds[name] : 2; n++ }
            printf "about %d minutes", sum / jobs / 60 + 1
            print (2 * remembered > n) ? ", as in the last run" : " on a fast machine, up to five times as long on a slow one"
        }' "$1" -
}
names=$(mktemp)
trap 'rm -f "$names"' EXIT
(cd "$CLTRAIN_ROOT" && ctest "${chosen[@]}" -N) | sed -n 's/^ *Test *#[0-9]*: *//p' >"$names"
say "testing: $(wc -l <"$names") tests of the labels ${labels//|/ and }, $jobs at a time: $(duration "$names")"
result=0
(cd "$CLTRAIN_ROOT" && ctest "${chosen[@]}" -j "$jobs" --output-on-failure --no-tests=error) || result=$?
# ctest names skipped tests but not why.
if reasons=$(grep -h '^SKIP: ' "$folder/Testing/Temporary/LastTest.log" 2>/dev/null | sort | uniq -c); then
    say "why tests or parts of them were skipped:"
    printf '%s\n' "$reasons"
fi
if [ "$result" -ne 0 ] && [ -s "$folder/Testing/Temporary/LastTestsFailed.log" ]; then
    say "failed, each with the line that repeats it:"
    sed "s/^[0-9]*:\(.*\)/     ctest --preset $preset -R '^\1\$' --output-on-failure/" "$folder/Testing/Temporary/LastTestsFailed.log"
fi
exit "$result"
