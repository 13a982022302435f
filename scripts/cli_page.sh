#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/cli.md to the standard output: every command with the help that the program prints.
# tests/e2e/test_docs.sh checks that the page is not old.
#
# usage: scripts/cli_page.sh PROGRAM >docs/cli.md
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
program=${1:?usage: scripts/cli_page.sh PROGRAM >docs/cli.md}

section() { # words of the command
    printf '\n## %s\n\n' "$*"
    "$program" "$@" --help | sed -e 's/[[:space:]]*$//' -e 's/^\(.\)/    \1/'
}

cat <<'TEXT'
# Commands

Written by `scripts/cli_page.sh` from the program's own help; change the commands in `cli/`, not this page. Values may
follow an option after a space or `=`; `--` ends the options.
TEXT
"$program" help | sed -n '/^usage/,/^first steps/s/^  \([a-z]*\)  .*/\1/p' | while read -r command; do
    [ "$command" = help ] || section "$command"
    # The parts of a command that has some.
    for part in $("$program" "$command" --help | sed -n '/^usage: .* PART/,$ s/^  \([a-z]*\)  .*/\1/p'); do
        section "$command" "$part"
    done
done
