#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# tests/clocks.txt lists every file of the tests that names a clock, a sleep or a limit of time, with the
# number of such lines of code and the reason why no verdict depends on the machine's speed. A file with
# another number of such lines fails by name, and the lines are printed; so does a file that is not on the
# list. Measurements (tests/bench) have no verdict and are left out.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# clock_lines ROOT: such lines of the tests below ROOT, as "path|line" with the path below ROOT.
clock_lines() {
    (
        cd "$1" && find tests -type f \( -name '*.sh' -o -name '*.c' -o -name '*.h' -o -name '*.py' -o -name 'CMakeLists.txt' \) \
            ! -path 'tests/bench/*' ! -name test_clocks.sh | sort | xargs awk '
            /^[[:space:]]*(#|\/?\*|\/\/)/ { next } # a comment
            /(^|[^A-Za-z_])((u|nano|clock_nano)?sleep|timeout|TIMEOUT|alarm|setitimer|clt_now|clt_thread_cpu|clock_gettime|pthread_cond_timedwait|SECONDS|EPOCHREALTIME|CLTRAIN_PROBE_SECONDS|getrusage|comm_set_deadline)([^A-Za-z_]|$)/ ||
            /date \+%s|deadline=|--limit|tune_seconds=|time\.(time|sleep)/ {
                sub(/^[[:space:]]+/, "")
                print FILENAME "|" $0
            }'
    )
}

# differences ROOT: files whose number of such lines is not what ROOT's list says; entries of the list without a known kind or a reason.
differences() {
    clock_lines "$1" | awk '
        reading == "list" {
            if (/^#  [a-z]/) kind[$2]
            else if (/^#/ || !NF) next
            else if (/^tests\/[^ ]+ [0-9]+$/) { path = $1; listed[path] = $2; entries[path] = 0 }
            else if (/^ / && $1 in kind && /: /) entries[path]++
            else print "not a file with a number, and not a kind with a reason: " $0
            next
        }
        { at = index($0, "|"); file = substr($0, 1, at - 1); found[file]++; lines[file] = lines[file] "\n    " substr($0, at + 1) }
        END {
            for (file in found)
                if (found[file] != listed[file]) print file ": " found[file] " lines, " listed[file] + 0 " on the list:" lines[file]
            for (file in listed) {
                if (!(file in found) && listed[file] > 0) print file ": no lines, " listed[file] " on the list"
                if (entries[file] == 0) print file ": no reason"
            }
        }' reading=list "$1/tests/clocks.txt" reading=lines -
}

differences "$CLTRAIN_SOURCE_DIR" >"$out"
if [ -s "$out" ]; then fail 'tests/clocks.txt and the tests differ'; else pass; fi

# The check detects a new sleep, one that is gone, and an entry without a reason.
mkdir -p small/tests/e2e
folder=tests/e2e
hopes=$folder/hopes.sh
printf '  sleep 3\n# sleep 4\n' >small/$hopes
: >small/tests/clocks.txt
differences small >"$out"
expect_text "^$hopes: 1 lines, 0 on the list:$" '^    sleep 3$'
reject_text 'sleep 4'
printf "#  pace  any length is right\n$hopes 1\n  pace  a pause: why not\n" >small/tests/clocks.txt
differences small >"$out"
if [ -s "$out" ]; then fail 'a list that is right is refused'; else pass; fi
sed -i 's/ 1$/ 2/; s/^  pace/  haste/' small/tests/clocks.txt
differences small >"$out"
expect_text '1 lines, 2 on the list' '^not a file.*haste' "$hopes: no reason"
finish
