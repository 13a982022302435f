# SPDX-License-Identifier: Apache-2.0
#
# Comparison of the losses of two runs, for the tests that train on more than one device. Sourced after lib.sh.

# D4, the promise between vendors: how far losses may differ, by the number of steps done.
write_tolerances() { # MODE
    case $1 in
    f32) echo 'step <= 10 ? 1e-5 : 1e-4' ;;
    *) echo '5e-2' ;;
    esac
}
# apart A B FIRST TOLERANCE: the largest difference of the losses from step FIRST on; false when a step is missing or too far off.
apart() {
    awk -v first="$3" "
        function number(line, key) { if (!match(line, \"\\\"\" key \"\\\": *-?[0-9.eE+-]+\")) return \"none\"
            line = substr(line, RSTART, RLENGTH); sub(/.*: */, \"\", line); return line }
        { step = number(\$0, \"step\"); loss = number(\$0, \"loss\") }
        step == \"none\" || loss == \"none\" || step + 0 < first { next }
        FNR == NR { want[step] = loss; n++; next }
        { got++; if (!(step in want)) { bad++; next }
          step += 0; d = loss - want[step]; d = d < 0 ? -d : d; if (!(d <= ($4))) bad++; if (!(d <= worst)) worst = d }
        END { printf \"%.2g\", worst; exit !(n > 0 && got == n && !bad) }" "$1/metrics.jsonl" "$2/metrics.jsonl"
}
