#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/mutate.py: its mutants are the same each time, and each changes one place outside of comments.
# relu's checks detect three, one is argued, and one is in code that no check of relu builds. A repeated run
# tests no mutant again.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python=$(command -v python3) || skip_all 'there is no python3'
command -v cpp >/dev/null || skip_all 'there is no preprocessor (cpp)'
scripts=$CLTRAIN_SOURCE_DIR/scripts
export PYTHONDONTWRITEBYTECODE=1
mutate=("$python" "$scripts/mutate.py")

expect_code 0 "${mutate[@]}" list
cp "$out" first
expect_code 0 "${mutate[@]}" list
if cmp -s "$out" first; then pass; else fail 'the list of mutants is another one the second time'; fi
if [ "$(wc -l <first)" -ge 15000 ]; then pass; else fail "only $(wc -l <first) mutants"; fi
for kind in operator bound constant removed barrier condition arguments conversion stride; do
    if grep -q ": $kind: " first; then pass; else fail "no mutant is of the kind $kind"; fi
done
cat >properties.py <<'E2'
import argparse, os, re, sys
import mutants, mutate

root, build = sys.argv[1:]
all_, texts = mutants.all_mutants(root)
assert sorted(texts) == sorted(os.listdir(os.path.join(build, "kernels"))), "other kernels than the build's"
comments = {n: [m.span() for m in re.finditer(r"/\*.*?\*/", t, re.S)] for n, t in texts.items()}
for m in all_:
    text = texts[m.file]
    new = m.apply(text)
    ahead, after = text[:m.start], text[m.end:]
    assert new != text and new.startswith(ahead) and new.endswith(after) and len(new) == len(ahead) + len(m.new) + len(after), m
    assert text.count("\n") == new.count("\n"), f"{m}: other lines"
    assert not any(a <= m.start < b for a, b in comments[m.file]), f"{m}: in a comment"
    assert not re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif|include|undef|pragma)\b", m.line_text), f"{m}: a directive"
keys = [m.key for m in all_]
draw = argparse.Namespace(files=None, kinds=None, numbers=None, every=3, sample=40, seed=3)
assert mutate.selected(all_, draw) == mutate.selected(all_, draw), "the same seed draws other mutants"
assert len(set(keys)) == len(keys), "two mutants have the same key"
stale = set(mutate.argued()) - set(keys)
assert not stale, f"argued.txt names what is not a mutant: {stale}"
E2
expect_code 0 env PYTHONPATH="$scripts" "$python" properties.py "$CLTRAIN_SOURCE_DIR" "$CLTRAIN_BUILD_DIR"

# number PATTERN: the number of the one mutant whose line matches.
number() {
    [ "$(grep -c -- "$1" first)" -eq 1 ] || { echo "not one mutant matches $1" >"$out"; fail "$1"; }
    sed -n "s/^\([0-9]*\) $1.*/\1/p" first
}
relu=$(grep -n 'return select(x, (type)(0.0f)' "$CLTRAIN_SOURCE_DIR/engine/ops/elementwise/unary.cl" | cut -d: -f1)
swapped=$(number "unary.cl:$relu:.*: arguments: x, ")
equal=$(number "unary.cl:$relu:.*: bound: < -> <=")
left_out=$(number 'unary.cl:.*: removed: x += x0 + base')
store=$(number 'unary.cl:.*: removed: STORE(DT, y, k, ')
unused=$(number 'adam.clh:.*: removed: PUT(m, ')
expect_code 0 "${mutate[@]}" show "$swapped"
expect_text '^- +return select.x, .type..0.0f., x <' '^\+ +return select..type..0.0f., x, x <'
tried=("${mutate[@]}" run "$CLTRAIN" --out results --checks 'relu.tail[lane]' --small
    --numbers "$swapped,$equal,$left_out,$store,$unused")
expect_code 0 "${tried[@]}"
expect_text '^5 mutants: 3 killed, 0 timed out, 0 refused by the compiler, 0 compiled to the same code, 1 in code that no check' \
    '1 survived, 1 of them argued' '^100.0 % of those that are not equivalent' "^argued  *$equal unary.cl" '^killed .* relu\.'
expect_code 0 "${tried[@]}"
expect_text ' 5 chosen, 0 to be tried' '^5 mutants: 3 killed'
echo other >results/kernels
expect_code 1 "${tried[@]}"
expect_text 'has results of other kernels'
expect_code 1 "${mutate[@]}" show 1000000
expect_text 'there is no mutant 1000000'
finish
