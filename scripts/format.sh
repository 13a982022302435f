#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the layout of every source in C and OpenCL C with clang-format, or corrects it with --fix. One major
# version decides, because versions of clang-format differ.
#
# usage: scripts/format.sh [--fix]
# Exit codes: 0 all is well, 1 some file differs, 3 that version is not installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=14

case ${1:-} in
'') mode=(--dry-run --Werror) ;;
--fix) mode=(-i) ;;
*) echo "usage: scripts/format.sh [--fix]" >&2; exit 2 ;;
esac

tool=
for candidate in "clang-format-$version" clang-format; do
    if command -v "$candidate" >/dev/null && [[ $("$candidate" --version) == *"version $version."* ]]; then
        tool=$candidate
        break
    fi
done
[ -n "$tool" ] || { echo "clang-format $version is not installed (package clang-format-$version)"; exit 3; }

if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    list=(git ls-files -z --cached --others --exclude-standard '*.c' '*.h' '*.cl' '*.clh')
else
    list=(find engine cl comm cli tests '(' -name '*.c' -o -name '*.h' -o -name '*.cl' -o -name '*.clh' ')' -print0)
fi
# A tracked file may have been deleted in the working tree.
"${list[@]}" | while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
    xargs -0 -r "$tool" "${mode[@]}" || exit 1
