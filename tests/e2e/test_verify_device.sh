#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 12
#
# The checks of the device alone: each built-in function that a kernel calls has a check, the limits in
# docs/drivers.md are the checked ones, and wrong functions, barriers, groups, atomics and offsets are
# detected. That a right device passes the small ones is part of test_verify_ops.sh.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The functions of OpenCL C 1.2 and its extensions, except vload, vstore, as_ and the functions for an
# item's position, which drivers do not compute. Conversions are named without the lanes of their vectors.
functions='acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos cosh cospi erfc erf exp exp2 exp10
    expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp lgamma log log2 log10 log1p logb mad maxmag minmag modf nan
    nextafter pow pown powr remainder remquo rint rootn round rsqrt sin sincos sinh sinpi sqrt tan tanh tanpi tgamma trunc abs abs_diff
    add_sat hadd rhadd clamp clz ctz mad_hi mad_sat max min mul_hi rotate sub_sat upsample popcount mad24 mul24 degrees mix radians step
    smoothstep sign cross dot distance length normalize isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater
    isfinite isinf isnan isnormal isordered isunordered signbit any all bitselect select shuffle shuffle2 barrier mem_fence'
families='((convert|native|atom|atomic|sub_group|work_group|async_work_group|intel)_[a-z0-9_]+|half_(cos|divide|(exp|log)(2|10)?|powr|recip|rsqrt|sin|sqrt|tan))'

# calls FILE...: the functions that kernels call, one a line
calls() {
    cat "$@" | tr '\n' ' ' | sed -E 's@/\*([^*]|\*+[^*/])*\*+/@ @g' >code
    { grep -oE "\b($(tr -s ' \n' '|' <<<"$functions" | sed 's/|$//'))\(" code | tr -d '('
        grep -oE "\b$families\b" code | sed -E 's/^(convert_[a-z]+)[0-9]+/\1/'; } | sort -u
}
# not_checked FOLDER: functions that the kernels of a source tree call and the checker's kernels do not; probes have their own answers
not_checked() {
    calls "$1"/engine/verify/device/*.cl >checked
    find "$1/cl" "$1/engine" \( -name '*.cl' -o -name '*.clh' \) ! -path '*/engine/verify/*' ! -name 'probe*' >kernels
    calls $(cat kernels) >called
    comm -13 checked called
}
[ -z "$(not_checked "$CLTRAIN_SOURCE_DIR")" ] && pass ||
    fail "kernels call functions that engine/verify/device/builtins_shared.clh does not have: $(not_checked "$CLTRAIN_SOURCE_DIR" | paste -s -d' ')"
[ "$(wc -l <called)" -ge 25 ] && pass || fail "only $(wc -l <called) functions are found in the kernels"
mkdir -p tree/engine/verify
cp -r "$CLTRAIN_SOURCE_DIR/engine/verify/device" tree/engine/verify
cp -r "$CLTRAIN_SOURCE_DIR/cl" tree
printf 'float f(float x) { return native_exp(erf (x) + rsqrt(x)) + convert_float4_sat(x); /* tgamma(x) */ }\n' | sed 's/erf (/erf(/' >tree/cl/kernels/new.clh
[ "$(not_checked tree | paste -s -d' ')" = 'convert_float_sat erf native_exp rsqrt' ] && pass || fail "a new function is not seen: $(not_checked tree)"

# The table of docs/drivers.md.
sed -nE 's/^    X\(BUILTIN_[A-Z0-9]+, "([a-z0-9]+)", [123], ([0-9.]+), .*/\1 \2/p' "$CLTRAIN_SOURCE_DIR/engine/verify/device/builtins_shared.clh" |
    sed 's/\.0$//' | sort >limits
awk -F' *[|] *' '/^\| built-in \|/ { on = 1 } on && /^\| `/ { n = split($2, names, ", "); for (i = 1; i <= n; i++) { gsub(/`/, "", names[i]); print names[i], $3 } } on && /^$/ { exit }' \
    "$CLTRAIN_SOURCE_DIR/docs/drivers.md" | sort >told
[ "$(wc -l <limits)" -ge 20 ] && pass || fail "only $(wc -l <limits) limits are found"
expect_same limits told

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device: only sources were compared'

# What test_verify_ops.sh leaves out.
expect_code 0 "$CLTRAIN" verify --seed 7 -t 'groups.rotate*,memory.*'
expect_text '^[6-9] passed, 0 failed'
if all_cases; then
    expect_code 0 "$CLTRAIN" verify --seed 7 -t 'builtins.*[dense]'
    expect_text '^21 passed, 0 failed'
fi

# Wrong devices, all at the same time: each wrong edit is detected by its own check and by no other.
mkdir wrong
# edit FILE FROM TO: plants an edit in a kernel file
edit() {
    [ -f "wrong/$1" ] || cp "$CLTRAIN_BUILD_DIR/kernels/$1" "wrong/$1"
    cp "wrong/$1" before
    sed -i "s|$2|$3|" "wrong/$1"
    if cmp -s before "wrong/$1"; then fail "nothing was planted in $1 for $2"; else pass; fi
}
edit builtin_reals.cl 'return exp(a);' 'return exp(a) * 1.000001f;'
edit builtin_reals.cl 'return fma(a, b, c);' 'return a * b + c;'
edit builtin_reals.cl 'return log2(a);' 'return a == 0.5f ? -0.99999f : log2(a);' # one argument only
edit builtin_integers.cl 'return (uint)a / (uint)b;' 'return (uint)((float)(uint)a / (float)(uint)b);'
edit builtin_integers.cl 'return as_uint((float)(long)a);' 'return as_uint((float)(int)((long)a >> 32) * 4294967296.0f + (float)(uint)a);'
edit builtin_integers.cl 'return shuffle(a, REVERSED);' 'return a;'
edit work_groups.cl '^        barrier(CLK_LOCAL_MEM_FENCE);' ''
edit work_groups.cl 'cells\[i\] = (first' 'cells[i \& 0xfff] = (first'
edit work_groups.cl '= mixed(mixed(mixed(x\[x0 + i\], 0), 1), 2);' '= mixed(mixed(mixed(x[x0 + i], 0), 1), 2) + (get_group_id(0) % 1000 == 77);'
edit atomics.cl 'y\[i\] = atomic_inc(cell);' 'y[i] = atomic_inc(cell) \& 0xfffeu;'
edit atomics.cl 'y\[i\] = atomic_or(cell, 1u << (i \& 31));' 'y[i] = i % 1000 == 7 ? 0u : atomic_or(cell, 1u << (i \& 31));'
edit far_offsets.cl 'y\[y0 + i \* stride\] =' 'y[(y0 + i * stride) \& 0x1fffff] ='
CLTRAIN_KERNEL_DIR=$work/wrong expect_code 1 "$CLTRAIN" verify --quick --seed 7 -t 'builtins.*,groups.*,atomics.*,memory.*' --json wrong.json
expect_text '^FAIL +builtins.exp\[scalar\]/correct' ' exp of 0x.* is 0x.*, the exact value .*: an error of [0-9.e+]* ulp, and the limit is 3; [0-9]* of [0-9]* values are wrong' \
    ' fma of .*, and it must be correctly rounded; ' ' log2 of 0x1p-1 \(0.5\) is .* the exact value -1: .* 3 of [0-9]* values' \
    ' 3[0-9]* of 327680 items in 10240 work-groups wrote a wrong word, or none; the first is in group \(77, 0, 0\)' \
    'pass numbers on through local memory, with a barrier each of 48 times: ' ' work-item [0-9]* got the number [0-9]* from counter 0 of 1, as did another one' \
    'the u32 at byte [0-9]* of a buffer of 16777216 is ' 'word [0-9]* of [0-9]* in the local memory of group '
awk '/"name":/ { name = $2; gsub(/[",]/, "", name) } /"state": "FAIL"/ { sub(/\/correct/, "", name); print name }' wrong.json | sort >failed
lanes=$("$CLTRAIN" devices --json | grep -c '"wide_vectors"')
cat >planted <<E2
atomics.bits
atomics.counts
atomics.tickets
builtins.divide_uint[scalar]
builtins.exp[scalar]
builtins.fma[lanes]
builtins.fma[quads]
builtins.fma[scalar]
builtins.log2[scalar]
builtins.long_to_float[scalar]
builtins.shuffle[lanes]
groups.local[all]
groups.many[line]
groups.many[plane]
groups.rotate[256]
groups.rotate[64]
memory.offsets[16m]
E2
[ "$lanes" -gt 0 ] || sed -i '/lanes/d' planted
sort -o planted planted
expect_same planted failed
finish
