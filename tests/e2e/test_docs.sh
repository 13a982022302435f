#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# The documentation agrees with the program: docs/cli.md, docs/config.md, the README's commands and exit codes, links, paths named
# in docs/layout.md, and every config in configs/.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
root=$CLTRAIN_SOURCE_DIR

# --- configs ---
for config in "$root"/configs/*.json; do
    expect_code 0 "$CLTRAIN" config --print "$config"
    # The printed text is itself a config, and the same one.
    grep -v '^cltrain' "$out" >printed.json
    expect_code 0 "$CLTRAIN" config --print printed.json
done
expect_code 0 "$CLTRAIN" plan "$root/configs/mlp-regression.json" # the one that needs no file

# --- docs/config.md is what the program writes ---
expect_code 0 "$CLTRAIN" config --markdown
if cmp -s "$out" "$root/docs/config.md"; then pass; else fail 'docs/config.md is old: cltrain config --markdown >docs/config.md'; fi

# --- docs/cli.md is what the program's help says, with every command and option ---
expect_code 0 "$root/scripts/cli_page.sh" "$CLTRAIN"
if cmp -s "$out" "$root/docs/cli.md"; then pass; else fail 'docs/cli.md is old: scripts/cli_page.sh PROGRAM >docs/cli.md'; fi
commands=$("$CLTRAIN" help | sed -n '/^usage/,/^first steps/s/^  \([a-z]*\)  .*/\1/p' | grep -v help)
if [ "$(wc -w <<<"$commands")" -ge 11 ]; then pass; else fail "too few commands in the help: $commands"; fi
options=0
for command in $commands; do
    if grep -q "^## $command\$" "$root/docs/cli.md"; then pass; else fail "docs/cli.md has no section on $command"; fi
    if grep -q -E "^\\| .$command" "$root/docs/cli.md"; then pass; else fail "the table of docs/cli.md does not name the command $command"; fi
    for option in $("$CLTRAIN" "$command" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
        options=$((options + 1))
        if sed -n "/^## $command\$/,/^## /p" "$root/docs/cli.md" | grep -q -e "^      $option "; then pass; else fail "docs/cli.md: $command lacks $option"; fi
    done
done
if [ $options -ge 30 ]; then pass; else fail "only $options options were found in the help"; fi
for code in 0 1 2 3 4 5 6 7 8 9 10 70 75; do
    if sed -n '/^Exit codes/,/^$/p' "$root/README.md" | grep -q -E "(^|[^0-9])$code [a-z]|^$code\$| $code\$"; then pass; else fail "README.md does not name the exit code $code"; fi
done

# --- every script says what it does, without doing it ---
for script in "$root"/scripts/*.sh; do
    case ${script##*/} in setup.sh | help.sh) continue ;; esac # to be sourced
    if "$script" --help >"$out" 2>&1; then pass; else fail "$script --help ends with $?"; fi # its words may name sanitizers
    expect_text '^usage: scripts/'
    if [ "$(wc -l <"$out")" -ge 3 ]; then pass; else fail "$script --help explains nothing"; fi
done
expect_code 2 "$root/scripts/bundle.sh" --hepl
expect_absent "$root/--help"

# --- a table is complete: its lines are adjacent, and have as many columns as its head ---
awk 'function columns(line) { gsub(/\\\|/, "", line); gsub(/`[^`]*`/, "", line); return gsub(/\|/, "", line) }
    FNR == 1 { before = 0; head = 0; code = 0 } /^ *```/ { code = !code }
    code || /^    / { before = 0; head = 0; next }
    /^\|[-| :]+\|$/ { if (!before) print FILENAME ":" FNR ": a table has no line of titles"; head = before; before = 0; next }
    /^\|/ { n = columns($0); if (head && n != head) print FILENAME ":" FNR ": " n - 1 " columns, not " head - 1
        if (!head && before) print FILENAME ":" FNR ": a table without a line under its titles"
        before = n; next }
    { if (before && !head) print FILENAME ":" FNR ": text follows the titles of a table"; before = 0; head = 0 }' "$root"/*.md "$root"/docs/*.md >"$out"
if [ -s "$out" ]; then fail "$(head -n 5 "$out")"; else pass; fi

# --- docs/devices.md is what the generator writes for the records ---
expect_code 0 "$root/scripts/devices_page.sh"
if cmp -s "$out" "$root/docs/devices.md"; then pass; else fail 'docs/devices.md is old: scripts/devices_page.sh >docs/devices.md'; fi
mkdir -p records taken/other
for record in "$root"/docs/devices/*.json; do
    expect_text "^### $(basename "$record" .json)\$"
    sed 's/largest loss difference [^ ]*/largest loss difference 0.125/; s/"runtime": ".*"/"runtime": "other"/' "$record" >taken/other/record.json
done
CLTRAIN_DEVICE_RECORDS=$work/records expect_code 0 "$root/scripts/devices_page.sh" --take taken
CLTRAIN_DEVICE_RECORDS=$work/records expect_code 0 "$root/scripts/devices_page.sh"
expect_text '^\| other \| .*\| 0\.125' '^### other$'
echo '{}' >records/none.json
CLTRAIN_DEVICE_RECORDS=$work/records expect_code 1 "$root/scripts/devices_page.sh"

# --- links and paths exist ---
pages=("$root/README.md" "$root"/docs/*.md)
for page in "${pages[@]}"; do
    while read -r target; do
        case $target in
        http*://* | '#'* | mailto:*) continue ;;
        esac
        target=${target%%#*}
        if [ -e "$(dirname "$page")/$target" ]; then pass; else fail "${page#"$root/"} links to $target, which does not exist"; fi
    done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//')
done
if [ -f "$root/docs/layout.md" ]; then
    while read -r path; do
        if compgen -G "$root/$path" >/dev/null; then pass; else fail "docs/layout.md names $path, which does not exist"; fi
    done < <(grep -o -E '`(cl|comm|engine|cli|tests|configs|scripts|docs)/[A-Za-z0-9_./*-]*`' "$root/docs/layout.md" | tr -d '`' | grep -v '<' | sort -u)
fi
finish
