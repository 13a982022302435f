#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Converts the records of the benchmark scripts into one JSON file and a Markdown page of tables. Measures nothing.
#
# usage: report.sh RECORDS JSON MARKDOWN [TITLE]
set -eu
export LC_ALL=C
[ $# -ge 3 ] || { echo "usage: report.sh RECORDS JSON MARKDOWN [TITLE]" >&2; exit 2; }

awk -F'\t' '
function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
BEGIN { printf "[" }
{
    value = $5 ~ /^[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$/ ? $5 + 0 : "null"
    printf "%s\n  {\"subject\": %s, \"case\": %s, \"side\": %s, \"quantity\": %s, \"value\": %s, \"unit\": %s, \"setting\": %s}",
        (NR > 1 ? "," : ""), text($1), text($2), text($3), text($4), value, text($6), text($7)
}
END { print "\n]" }' "$1" >"$2"

{
    echo "## ${4:-Benchmarks}"
    awk -F'\t' '
    function cell(s) { gsub(/\|/, "\\|", s); return s }
    function number(v) { return v ~ /^[-+.0-9eE]+$/ ? ((v >= 1000 || v == int(v)) ? sprintf("%.0f", v) : sprintf("%.3g", v)) : v }
    $1 == "run" { about[++n_about] = $4 ": " $7; next }
    $3 == "bar" { bars[++n_bars] = "| " cell($4) " | " number($5) " | " cell($6) " | " $7 " |"; next }
    $4 == "skipped" { skips[++n_skips] = "- " $1 ": " $3 ": " $7; next }
    $4 ~ /^trial/ || $2 ~ /^case / || $4 == "failed" { next }
    { rows[++n_rows] = "| " $1 " | " cell($2) " | " cell($3) " | " $4 " | " number($5) " " $6 " | " cell($7) " |" }
    END {
        print ""
        for (i = 1; i <= n_about; i++) print "- " about[i]
        if (n_bars) { print "\n| bar | measured | must be | |\n| --- | --- | --- | --- |"; for (i = 1; i <= n_bars; i++) print bars[i] }
        if (n_rows) {
            print "\n| subject | case | side | quantity | value | setting |\n| --- | --- | --- | --- | --- | --- |"
            for (i = 1; i <= n_rows; i++) print rows[i]
        }
        if (n_skips) { print "\nLeft out:\n"; for (i = 1; i <= n_skips; i++) print skips[i] }
    }' "$1"
} >"$3"
