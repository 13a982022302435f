#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 20
#
# `verify --reduce`: for wrong kernels it writes folders whose program compiles without warnings, shows the
# wrong number, and finds nothing wrong once the kernel in the folder is correct. A driver that crashes also
# ends that program. With "all": ten wrong kernels.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
printf '#include <CL/cl.h>\nint main(void) { return clGetPlatformIDs(0, NULL, NULL) == 1; }\n' >probe.c
cc -std=c11 probe.c -lOpenCL -o probe 2>/dev/null || skip_all 'there is no C compiler with the headers of OpenCL'
mkdir kernels
checks=''
# plant FILE CHECK RIGHT WRONG: in the line of the kernel that the expression RIGHT finds, PLANTED(right, wrong) chooses the wrong part.
plant() {
    sed -e "s@$3@$4@" -e '0,/^#/s//#define PLANTED(right, wrong) wrong\n#/' "$CLTRAIN_BUILD_DIR/kernels/$1" >"kernels/$1"
    if [ "$(grep -c PLANTED "kernels/$1")" -lt 2 ]; then fail "nothing was planted in $1"; fi
    checks=$checks${checks:+,}$2
}
plant softmax.cl 'softmax.odd[row]' 'if (row >= rows)' 'if (row >= PLANTED(rows, rows - 1))'
plant adam.clh 'update.adamw[group]' 'st\[ST_CORRECTION2\]' 'st[PLANTED(ST_CORRECTION2, ST_CORRECTION1)]'
plant conv.cl 'conv2d.odd[matrix]' 'i2_ < in2;' 'i2_ < PLANTED(in2, in2 - 1);'
if all_cases; then
    plant layernorm.cl 'layernorm.odd[row]' '(float)cols + eps)' '(float)cols + PLANTED(eps, 1e-3f))'
    plant functions.clh 'gelu.far[flat]' 'CLT_K(0.39894228040143268f) \* e, cdf)' \
        'CLT_K(0.39894228040143268f) * e, PLANTED(cdf, CLT_K(0.5f)))'
    plant gemm.cl 'gemm.odd_nn[simple]' 'left -= steps;' 'left -= steps; if (PLANTED(0, (k \& 1) > 0 \&\& left == 0)) steps--;'
    plant cross_entropy.cl 'cross_entropy.ties[row]' 'clt_row_of(x, cols,' 'clt_row_of(x, PLANTED(cols, cols - 1),'
    plant embedding.cl 'embedding.odd[row]' 'for (uint v = vocab; v > 0; v--)' 'for (uint v = vocab; v > PLANTED(0, 1); v--)'
    plant pool.cl 'max_pool.stem[flat]' 'min(a.window - s.before,' 'min(a.window - PLANTED(0, 1) - s.before,'
    plant dropout.cl 'dropout.odd[flat]' 'LOAD(DT, x, i) \* scale' 'LOAD(DT, x, i) * PLANTED(scale, 1.0f)'
fi
planted=$(awk -F, '{ print NF }' <<<"$checks")
CLTRAIN_KERNEL_DIR=$work/kernels expect_code 1 "$CLTRAIN" verify --mode correct -t "$checks" --seed 9 --reduce found
expect_text "^0 passed, $planted failed"
if [ "$(grep -c '^reduced: ' "$out")" != "$planted" ]; then fail "not every check was reduced: $(cat "$out")"; else pass; fi
# Each size is as small as it can be.
expect_text 'softmax.odd\[row\]/correct in [0-9]+ trials to x0.dim0=1 x0.dim1=1 x0.dim2=1$'

# shows CODE: runs the folder's program on the device on which the check failed; it must end with CODE.
shows() { expect_code "$1" ./repro; }
for folder in found/*/; do
    cd "$folder" || exit 1
    if [ -s report.md ] && [ -s options.txt ]; then pass; else fail "$folder is not whole"; fi
    expect_code 0 cc -std=c11 -Wall -Wextra -Werror repro.c -lOpenCL -o repro
    shows 1
    expect_text '^device: ' '^wrong: index [0-9]+ of [0-9]+ \(element [0-9]+ of buffer[0-9]+\): got .*, expected .*, allowed error '
    sed -i 's|^#define PLANTED.*|#define PLANTED(right, wrong) right|' kernel*.cl
    shows 0
    expect_text '^right: [0-9]+ values'
    cd "$work" || exit 1
done
cd found/softmax.odd-row || exit 1
expect_code 2 ./repro 'no such device'
expect_text "there is no device 'no such device'"
sed -i 's|__kernel|__kernel wrong|' kernel.cl
shows 2
expect_text 'kernel.cl does not build with -cl-std=CL1.2'
expect_awk 'the page names the check, the device and the command' '/^. check . `softmax.odd\[row\]/ { n++ } /^. device . ./ { n++ }
    /cltrain verify -t .softmax.odd\[row\]/ { n++ } END { exit n != 3 }' report.md
cd "$work" || exit 1

# A failure that cannot be reduced is reported with the reason; a folder that contains files is not changed,
# and is refused before the checks run.
CLTRAIN_KERNEL_DIR=$work/kernels expect_code 8 "$CLTRAIN" verify -t 'softmax.odd[row]' --reduce found
expect_text 'found: the folder is not empty'
reject_text '^device '
expect_code 2 "$CLTRAIN" verify --run found --reduce other
expect_code 0 "$CLTRAIN" verify -t 'known.philox' --reduce nothing
expect_absent nothing
CLTRAIN_KERNEL_DIR=$work/kernels expect_code 1 "$CLTRAIN" verify -t 'softmax.odd[row]/bitwise' --seed 9 --reduce bits
expect_text '^not reduced: softmax.odd\[row\]/bitwise: bitwise: only checks of the mode correct'

# A driver that crashes.
if [ -f "$CLTRAIN_BUILD_DIR/tests/driver_shim.so" ]; then
    need_shim
    export LD_PRELOAD=$shim CLT_SHIM='launch:kernel=softmax_fwd_row:segfault'
    expect_code 1 "$CLTRAIN" verify -t 'softmax.odd[row]/correct' --seed 9 --reduce crash
    expect_text 'SIGSEGV' '^reduced: softmax.odd\[row\]/correct in .* to x0.dim0=1 x0.dim1=1 x0.dim2=1$'
    unset LD_PRELOAD CLT_SHIM
    cd crash/softmax.odd-row || exit 1
    expect_code 0 cc -std=c11 -Wall -Wextra -Werror repro.c -lOpenCL -o repro
    shows 0
    expect_text '^right: every command has ended'
    LD_PRELOAD=$shim CLT_SHIM='launch:kernel=softmax_fwd_row:segfault' expect_code 139 ./repro
    cd "$work" || exit 1
fi
finish
