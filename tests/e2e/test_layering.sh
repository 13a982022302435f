#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8
#
# The rules between rooms (docs/layout.md): which calls are allowed where, the direction of includes,
# file names, licence lines, trailing spaces. test_layering.sh [ROOT] checks a tree; without ROOT it checks
# the project's and then itself: each rule must report a small tree that violates it, and no other rule may.
set -u
export LC_ALL=C

# Code of C files as "path:line:code", without comments and the insides of strings and character constants.
code_of() {
    awk '
    FNR == 1 { in_comment = 0 }
    {
        out = ""; s = $0; n = length(s); quote = ""
        for (i = 1; i <= n; i++) {
            c = substr(s, i, 1); two = substr(s, i, 2)
            if (in_comment) { if (two == "*/") { in_comment = 0; i++ } continue }
            if (quote != "") {
                if (c == "\\") i++
                else if (c == quote) { quote = ""; out = out c }
                continue
            }
            if (two == "/*") { in_comment = 1; i++; continue }
            if (two == "//") break
            if (c == "\"" || c == "\047") quote = c
            out = out c
        }
        if (out ~ /[^ \t]/) print FILENAME ":" FNR ":" out
    }' "$@" /dev/null
}

# The project's own files, below the current folder.
files() {
    find ./*.txt ./*.json ./*.md .ci cl comm engine cli tests scripts configs docs deploy -type f -print 2>/dev/null | sed 's|^\./||'
}

# report RULE: reads "path:line:text", prints each as a finding of the rule.
report() { sed "s|^|[$1] |"; }

outside() { grep -v -E "^($1)"; }

check_calls() {
    local code=$1
    grep -E '[^A-Za-z0-9_]cl[A-Z][A-Za-z0-9]*[[:space:]]*\(' "$code" | outside 'cl/|tests/' | report opencl
    grep -E '[^A-Za-z0-9_](CLBlast[A-Za-z]*)|include *<clblast' "$code" | outside 'cl/backends/blas_clblast\.c:|tests/' | report clblast
    grep -E '[^A-Za-z0-9_]MPI_[A-Z]|include *<mpi\.h>' "$code" | outside 'comm/comm_mpi\.c:' | report mpi
    grep -E '[^A-Za-z0-9_]cJSON|include *<(cjson/)?cJSON' "$code" | outside 'engine/json/|engine/config/' | report cjson
    grep -E '[^A-Za-z0-9_]jpeg_[a-z_]+[[:space:]]*\(|include *<(jpeglib|jerror|turbojpeg)\.h' "$code" |
        outside 'engine/data/pixels/image_jpeg\.c:|tests/' | report jpeg
    grep -E '[^A-Za-z0-9_]png_[a-z_]+[[:space:]]*\(|include *<(libpng[0-9]*/)?png\.h' "$code" |
        outside 'engine/data/pixels/image_png\.c:|tests/' | report png
    grep -E '[^A-Za-z0-9_]curl_[a-z_]+[[:space:]]*\(|CURL|include *<curl/' "$code" | outside 'engine/cloud/http\.c:|tests/' | report curl
    # A member such as transport->abort is not the function abort; in dependent.c only a process that was
    # just forked exits.
    grep -E '(^|[^A-Za-z0-9_>.])(_?exit|_Exit|quick_exit|abort|v?printf|puts|putchar|perror)[[:space:]]*\(|[^A-Za-z0-9_](stdout|stderr)([^A-Za-z0-9_]|$)' "$code" |
        outside 'cli/|tests/|docs/|engine/host/dependent\.c:' | report process
}

# The floors, from the bottom, and on each the houses; docs/layout.md says what each does. A file may include its own house and houses
# of lower floors: never a higher one, and no other house of its own floor.
floors='
base
cl cloud comm config graph monitor
ops data state
optim models
plan checkpoint
report verify pretrained
sweep train
api
cli
tests'

# The rooms of each house, which are folders, in their order: a file may include its own room and rooms to the left of it. Rooms
# that are joined by a + do not include each other. Below tests/ all folders are one room.
rooms='
base engine/base engine/files engine/json+engine/host
cl cl/kernels+cl/drivers cl/device cl/command cl/program cl/exec+cl/measure cl/tune cl/gemm cl/gemm_bench cl/backends cl/probes
cloud engine/cloud engine/storage engine/storage/copies
comm comm
config engine/config
graph engine/graph
monitor engine/monitor
ops engine/ops engine/ops/elementwise engine/ops/attention+engine/ops/linear+engine/ops/reduce+engine/ops/shape+engine/ops/spatial engine/ops/conv+engine/ops/loss+engine/ops/norm engine/ops/cross_entropy
data engine/data+engine/data/texts engine/data/pixels+engine/data/records+engine/data/tokenizer engine/data/arrays+engine/data/facts engine/data/annotated+engine/data/chat+engine/data/images+engine/data/tables+engine/data/tokens+engine/data/volumes engine/data/open
state engine/state
optim engine/optim
models engine/models
plan engine/plan engine/plan/passes
checkpoint engine/checkpoint
report engine/report/write engine/report/read+engine/report/times engine/report/page
verify engine/verify engine/verify/cases+engine/verify/device+engine/verify/speed engine/verify/reduce
pretrained engine/pretrained engine/pretrained/gguf
train engine/train/job engine/train/run engine/train/eval+engine/train/generate+engine/train/ranks+engine/train/saved engine/train/inspect engine/train/loop
sweep engine/sweep
api engine engine/api
cli cli/screen cli/bench+cli/ckpt+cli/commands+cli/data+cli/help+cli/launch+cli/verify cli
tests tests'

# The most files that a room may have.
crowd=25

# check_includes LIST SOURCE...: LIST names every file of the tree. Includes of kernels have no folder, so they are looked up in it.
check_includes() {
    local list=$1
    shift
    grep -n -E '^[[:space:]]*#[[:space:]]*include[[:space:]]*<CL/' "$@" /dev/null | outside 'cl/|tests/' | report opencl
    grep -E '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" /dev/null | sed -E 's/:[^"]*"([^"]*)".*/ \1/' |
        awk -v list="$list" -v floors="$floors" -v rooms="$rooms" -v crowd="$crowd" '
        function room(path) { return path ~ /^tests\// ? "tests" : substr(path, 1, match(path, /\/[^\/]*$/) - 1) }
        # A header and its source belong together: a file that includes one depends on the other.
        function unit(path) { sub(/\.(c|h)$/, "", path); return path }
        function finding(rule, text) { print "[" rule "] " text }
        BEGIN {
            n = split(floors, line, "\n")
            for (i = 1; i <= n; i++) {
                m = split(line[i], houses, " ")
                for (k = 1; k <= m; k++) floor[houses[k]] = i
            }
            n = split(rooms, line, "\n")
            for (i = 1; i <= n; i++) {
                m = split(line[i], steps, " ")
                for (k = 2; k <= m; k++) {
                    l = split(steps[k], side, "+")
                    for (j = 1; j <= l; j++) { house[side[j]] = steps[1]; step[side[j]] = k }
                }
            }
            while ((getline path < list) > 0) {
                there[path] = 1
                if (path !~ /^(cl|comm|engine|cli|tests)\/.*\.(c|h|cl|clh)$/) continue
                name = path; sub(/.*\//, "", name)
                if (path ~ /\.clh$/) kernels[name] = path
                if (!(room(path) in house) && !(room(path) in told)) {
                    told[room(path)] = 1
                    finding("room", path ": its room has no place in tests/e2e/test_layering.sh")
                }
                if (room(path) != "tests" && ++inhabitants[room(path)] == crowd + 1)
                    finding("crowd", room(path) ": it has more than " crowd " files")
            }
        }
        {
            file = $1; target = $2
            if (file ~ /\.(cl|clh)$/) target = target in kernels ? kernels[target] : target
            if (!(target in there)) {
                finding("include-path", file ": includes \"" target "\", which is not a path from the root")
                next
            }
            from = room(file); to = room(target)
            if (from != to && from in house && to in house &&
                (house[from] == house[to] ? step[to] >= step[from] : floor[house[to]] >= floor[house[from]]))
                finding("include", file ": includes " target)
            a = unit(file); b = unit(target)
            if (a == b || b == a "_internal" || ((a, b) in edge)) next
            edge[a, b] = 1; out[a]++; in_[b]++; unit_[a] = unit_[b] = 1
        }
        END { # What is left when all that starts or ends nowhere is taken away are circles, and ways between them.
            do {
                taken = 0
                for (u in unit_) {
                    if (out[u] > 0 && in_[u] > 0) continue
                    for (e in edge) {
                        split(e, ab, SUBSEP)
                        if (ab[1] != u && ab[2] != u) continue
                        out[ab[1]]--; in_[ab[2]]--
                        delete edge[e]
                    }
                    delete unit_[u]; taken = 1
                }
            } while (taken)
            for (e in edge) {
                split(e, ab, SUBSEP)
                finding("circle", ab[1] ": includes " ab[2] ", and by way of others it is the other way round, too")
            }
        }'
}

# check_mentions FILE...: every file that a comment or a page names by its path exists. This script and test_completion.sh name some that do not.
check_mentions() {
    local file line path
    grep -n -o -E '(^|[^A-Za-z0-9_/.$}*#-])(cl|comm|engine|cli|tests|scripts|configs|deploy)/[A-Za-z0-9_./-]+\.(c|h|cl|clh|def|sh|py|json|yaml|yml|tf|sbatch)([^A-Za-z0-9_.]|$)' "$@" /dev/null |
        outside 'tests/e2e/test_(layering|completion)\.sh|[^:]*:[0-9]+:"' | sed -E 's/^([^:]*):([0-9]+):[^a-z]?([A-Za-z0-9_./-]+\.[a-z]+).*/\1 \2 \3/' |
        while read -r file line path; do
            [ -e "$path" ] || echo "$file:$line: names $path, which is not there" | report mention
        done
}

# check_names SOURCE...: no file is named by the bare id of a process, which a process of another host that shares the folder may have,
# too: clt_temporary_name names it.
check_names() {
    grep -n -E '"[^"]*(-%l?d|%l?d-)[^"]*".*getpid\(\)' "$@" /dev/null | outside 'engine/files/process\.c:|tests/' | report pid
}

# check_tree: every rule on the current folder; prints the findings.
check_tree() {
    local list code
    list=$(mktemp) code=$(mktemp)
    files >"$list"
    local sources=() kernels=() texts=() pages=() file
    while IFS= read -r file; do
        case $file in
        *.c | *.h) sources+=("$file") texts+=("$file") ;;
        *.cl | *.clh) kernels+=("$file") texts+=("$file") ;;
        *.sh | *.py | *.cmake | */CMakeLists.txt | CMakeLists.txt | .ci/*) texts+=("$file") ;;
        *.md | *.json)
            pages+=("$file")
            grep -n -E '[[:space:]]+$' "$file" | sed "s|^|$file:|" | report spaces ;;
        esac
    done <"$list"
    [ ${#sources[@]} -gt 0 ] || { echo "[empty] there is no source file in $PWD"; return; }
    code_of "${sources[@]}" >"$code"
    check_calls "$code"
    check_includes "$list" "${sources[@]}" "${kernels[@]}"
    check_names "${sources[@]}"
    grep -E '\.(c|h|cl|clh)$' "$list" | sed 's|.*/||' | sort | uniq -d | sed 's|$|: this file name is used twice|' | report unique
    for file in "${texts[@]}"; do
        head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file: has no SPDX line at its top" | report spdx
    done
    grep -n -E '[[:space:]]+$' "${texts[@]}" /dev/null | report spaces
    check_mentions "${texts[@]}" "${pages[@]}"
    rm -f "$list" "$code"
}

# --- the self-test ---

# A tree that keeps every rule, some of them narrowly.
make_clean_tree() {
    local c='/* SPDX-License-Identifier: Apache-2.0 */'
    mkdir -p cl/kernels cl/device cl/backends comm engine/base engine/json engine/config engine/ops cli tests/unit scripts
    printf '%s\nint base(void);\n' "$c" >engine/base/base.h
    printf '%s\n#include "engine/base/base.h"\nint base(void) { return 1; }\n' "$c" >engine/base/base.c
    printf '%s\n#include "engine/base/base.h"\n#include <cjson/cJSON.h>\nint json(void) { return cJSON_Version() != 0; }\n' "$c" >engine/json/json.c
    printf '%s\n#include <CL/cl.h>\n#include "engine/base/base.h"\nint dev(void) { return clFinish(0); }\n' "$c" >cl/device/dev.c
    printf '%s\n#include <clblast_c.h>\nint blas(void) { return CLBlastSgemm(0); }\n' "$c" >cl/backends/blas_clblast.c
    printf '%s\n#include <mpi.h>\nint ranks(void) { return MPI_Finalize(); }\n' "$c" >comm/comm_mpi.c
    printf '%s\n#include "comm/comm.h"\nvoid stop(struct t *x) { x->abort(1); /* exit(1); */ }\n' "$c" >comm/collectives.c
    printf '%s\nstruct t { void (*abort)(int); };\n' "$c" >comm/comm.h
    printf '%s\n#include "cl/device/x.h"\n#include "comm/comm.h"\n// MPI_Init() and clFinish() and cJSON are only named here\nconst char *op(void) { return "printf(\\"%%d\\") clFinish(q) exit(1)"; }\nint snprintf_like(void) { return my_printf(1); }\n' "$c" >engine/ops/op.c
    printf '%s\nint x;\n' "$c" >cl/device/x.h
    printf '%s\n#include "engine/base/base.h"\nint main(void) { printf("hello\\n"); exit(0); }\n' "$c" >cli/main.c
    printf '%s\nint t(void) { abort(); }\n' "$c" >tests/unit/test_x.c
    printf '%s\n#include "x.clh"\n__kernel void k(void) {}\n' "$c" >cl/kernels/k.cl
    printf '%s\n#define X 1\n' "$c" >cl/kernels/x.clh
    printf '%s\n#include "x.clh"\n#define O 1\n' "$c" >engine/ops/o.clh
    printf '%s\nint a;\n' "$c" >engine/ops/a.h
    printf '%s\n#include "engine/ops/a.h"\n' "$c" >engine/ops/a.c
    printf '%s\n#include "engine/ops/a.h"\nint b;\n' "$c" >engine/ops/b.h
    printf '%s\n#include "engine/ops/b.h"\nint inner;\n' "$c" >engine/ops/b_internal.h
    printf '%s\n#include "engine/ops/b_internal.h"\n' "$c" >engine/ops/b.c
    printf '#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\nexit 0\n' >scripts/a.sh
    printf 'text\n' >README.md
}

# must_catch RULE FILE TEXT [ANOTHER]: the text, appended to the file of a clean tree (which has ANOTHER file, too), breaks this rule
# and no other.
self_failures=0
must_catch() {
    local rule=$1 file=$2 text=$3 another=${4:-} tree found rules
    tree=$(mktemp -d)
    found=$(
        cd "$tree" && make_clean_tree && mkdir -p "$(dirname "$file")" || exit
        [ -f "$file" ] || printf '/* SPDX-License-Identifier: Apache-2.0 */\n' >"$file"
        printf "$text\n" >>"$file"
        if [ -n "$another" ]; then
            mkdir -p "$(dirname "$another")" && printf '/* SPDX-License-Identifier: Apache-2.0 */\n' >"$another"
        fi
        check_tree
    )
    rm -rf "$tree"
    rules=$(printf '%s\n' "$found" | sed -n 's/^\[\([a-z-]*\)\].*/\1/p' | sort -u | tr '\n' ' ')
    if [ "$rules" != "$rule " ]; then
        echo "FAIL: '$text' in $file should break [$rule], the check says: ${found:-nothing}"
        self_failures=$((self_failures + 1))
    fi
}

self_test() {
    local tree found
    tree=$(mktemp -d)
    found=$(cd "$tree" && make_clean_tree && check_tree)
    rm -rf "$tree"
    [ -z "$found" ] || { echo "FAIL: a clean tree is refused: $found"; self_failures=1; }

    must_catch opencl engine/ops/op.c 'int f(void) { return clEnqueueNDRangeKernel(0); }'
    must_catch opencl comm/collectives.c 'int f(void) { return clFinish (0); }'
    must_catch opencl cli/main.c 'int f(void) { return clGetPlatformIDs(0, 0, 0); }'
    must_catch opencl engine/ops/op.c '#include <CL/cl.h>'
    must_catch clblast cl/device/dev.c 'int f(void) { return CLBlastSgemm(0); }'
    must_catch clblast engine/ops/op.c '#include <clblast_c.h>'
    must_catch mpi comm/collectives.c 'int f(void) { return MPI_Barrier(0); }'
    must_catch mpi engine/ops/op.c 'int f(void) { return MPI_COMM_WORLD; }'
    must_catch mpi comm/comm.h '#include <mpi.h>'
    must_catch cjson engine/ops/op.c 'cJSON *f(void);'
    must_catch cjson cli/main.c '#include <cjson/cJSON.h>'
    must_catch jpeg engine/data/pixels/image.c 'int f(void) { return jpeg_start_decompress(0); }'
    must_catch jpeg engine/ops/op.c '#include <jpeglib.h>'
    must_catch png engine/data/pixels/image_jpeg.c 'void f(void) { png_read_end(0, 0); }'
    must_catch png cli/main.c '#include <png.h>'
    must_catch curl cli/main.c '#include <curl/curl.h>'
    must_catch process engine/ops/op.c 'void f(void) { exit(1); }'
    must_catch process cl/device/dev.c 'void f(void) { abort(); }'
    must_catch process comm/collectives.c 'void f(void) { printf("x"); }'
    must_catch process engine/base/base.c 'void f(void) { puts("x"); }'
    must_catch process engine/base/base.c 'void f(void) { fprintf(stderr, "x"); }'
    must_catch process cl/device/dev.c 'void f(void) { fputs("x", stdout); }'
    must_catch process engine/ops/op.c 'const char *g = "/*"; void f(void) { exit(1); } /* end */'
    must_catch pid engine/ops/op.c 'int n = snprintf(path, size, "%%s.tmp-%%ld", name, (long)getpid());'
    must_catch include engine/base/base.c '#include "cl/device/x.h"'
    must_catch include engine/base/base.c '#include "comm/comm.h"'
    must_catch include cl/device/dev.c '#include "comm/comm.h"'
    must_catch include comm/collectives.c '#include "cl/device/x.h"'
    must_catch include cl/device/dev.c '#include "engine/ops/op.c"'
    must_catch include engine/ops/op.c '#include "cli/main.c"'
    must_catch include cli/main.c '#include "tests/unit/test_x.c"'
    must_catch include engine/graph/graph.c '#include "engine/ops/b.h"'
    must_catch include engine/data/data.c '#include "engine/ops/b.h"'
    must_catch include engine/ops/op.c '#include "engine/train/run/run.h"' engine/train/run/run.h
    must_catch include cl/kernels/k.cl '#include "o.clh"'
    must_catch include engine/base/base.c '#include "engine/json/above.h"' engine/json/above.h
    must_catch include cl/kernels/k.cl '#include "cl/device/x.h"'
    must_catch include engine/verify/cases/a_case.c '#include "engine/verify/speed/speed.h"' engine/verify/speed/speed.h
    must_catch room engine/attic/old.c 'int y;'
    must_catch circle engine/ops/a.h '#include "engine/ops/b.h"'
    must_catch circle engine/ops/a.c '#include "engine/ops/b.h"'
    must_catch circle engine/ops/a.c '#include "engine/ops/b_internal.h"'
    must_catch include-path cl/device/dev.c '#include "cl/absent.h"'
    must_catch include-path tests/unit/test_x.c '#include "x.h"'
    must_catch mention engine/ops/op.c '/* engine/ops/gone.c has the rest. */'
    must_catch mention README.md 'Start at `cli/gone.c`.'
    must_catch mention README.md 'cltrain train configs/gone.json --out run'
    must_catch unique engine/config/base.h 'int y;'
    must_catch unique engine/ops/k.cl 'int y;'
    must_catch spaces engine/ops/op.c 'int y; '
    must_catch spaces scripts/a.sh 'true\t'
    must_catch spaces README.md 'word '

    tree=$(mktemp -d)
    found=$(cd "$tree" && make_clean_tree && mkdir engine/graph && for i in $(seq $((crowd + 1))); do cp cl/kernels/x.clh "engine/graph/g$i.h"; done && check_tree)
    rm -rf "$tree"
    [ "$found" = "[crowd] engine/graph: it has more than $crowd files" ] ||
        { echo "FAIL: a room of too many files, the check says: $found"; self_failures=$((self_failures + 1)); }

    tree=$(mktemp -d)
    found=$(cd "$tree" && make_clean_tree && printf 'int y;\n' >engine/ops/bare.c && printf 'true\n' >scripts/b.sh && check_tree)
    rm -rf "$tree"
    [ "$(printf '%s\n' "$found" | grep -c '^\[spdx\]')" -eq 2 ] ||
        { echo "FAIL: two files without an SPDX line, the check says: $found"; self_failures=$((self_failures + 1)); }
}

cd "${1:-${CLTRAIN_SOURCE_DIR:?set it to the source folder}}" || exit 1
findings=$(check_tree)
if [ -n "$findings" ]; then
    printf '%s\n' "$findings"
    echo "FAIL: $(printf '%s\n' "$findings" | wc -l) findings in $PWD"
fi
[ $# -gt 0 ] || self_test
[ -z "$findings" ] && [ "$self_failures" -eq 0 ] && echo ok
