/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of functions.clh, for one number and for sixteen, on the device, against the C library in
 * double precision: every exponent of both signs, a dense middle, zeros, subnormal, huge and infinite
 * arguments, NaN. Errors stay within the bounds that functions.clh documents and both forms give the same
 * bits. Knows no op. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include <float.h>
#include <math.h>

enum { PATTERNS = 65536 * 2, DENSE = 65536, SPECIALS = 32, COUNT = PATTERNS + DENSE + SPECIALS };

#define SQRT1_2 0.70710678118654752440
#define TINY 0x1p-126 /* the error that flushing a subnormal result may cause */

static char folder[64];
static ocl_device *device;
static float input[COUNT], one[COUNT], sixteen[COUNT];

static double ref_exp_minus(double x)
{
    return exp(-x);
}
static double ref_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static double ref_silu(double x)
{
    return x / (1.0 + exp(-x));
}
static double ref_dsilu(double x)
{
    double s = ref_sigmoid(x);
    return s * (1.0 + x * (1.0 - s));
}
/* Subnormal numbers count as the smallest normal one. */
static double ref_log(double x)
{
    return x > 0.0 && x < TINY ? log(TINY) : log(x);
}
static double ref_gelu_erf(double x)
{
    return isinf(x) ? fmax(x, 0.0) : x * 0.5 * erfc(-x * SQRT1_2);
}
static double ref_dgelu_erf(double x)
{
    return 0.5 * erfc(-x * SQRT1_2) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
}
static double ref_gelu_tanh(double x)
{
    return x / (1.0 + exp(-1.5957691216057307117 * (x + 0.044715 * x * x * x)));
}
static double ref_dgelu_tanh(double x)
{
    if (isinf(x))
        return x > 0.0 ? 1.0 : 0.0;
    double s = 1.0 / (1.0 + exp(-1.5957691216057307117 * (x + 0.044715 * x * x * x)));
    return s + x * (1.5957691216057307117 + 0.21406444881780074 * x * x) * s * (1.0 - s);
}

/* |result - reference| <= ulp units in the last place of the reference + absolute, for lo <= x <= hi. */
typedef struct function {
    const char *name;
    double (*reference)(double x);
    double ulp, absolute, lo, hi;
} function;
static const function functions[] = {
    {"clt_exp", exp, 1.0, 0x1p-125, -INFINITY, INFINITY},
    {"clt_exp_down", exp, 1.0, 0.0, -8.0, 0.0},
    {"clt_exp_down", exp, 6.0, 0x1p-125, -INFINITY, 0.0},
    {"clt_exp_minus", ref_exp_minus, 3.0, 0x1p-125, 0.0, 8.0},
    {"clt_exp_minus", ref_exp_minus, 20.0, 0x1p-125, 0.0, INFINITY},
    {"clt_tanh", tanh, 2.5, TINY, -INFINITY, INFINITY},
    {"clt_log", ref_log, 1.5, 0.0, -INFINITY, INFINITY},
    {"clt_log1p", log1p, 2.0, TINY, 0.0, 1.0},
    {"clt_log1p_any", log1p, 2.0, TINY, 0.0, INFINITY},
    {"clt_sigmoid", ref_sigmoid, 2.5, TINY, -INFINITY, INFINITY},
    {"clt_silu", ref_silu, 2.5, 0x1p-119, -INFINITY, INFINITY},
    {"clt_dsilu", ref_dsilu, 2.0, 1.2e-6, -FLT_MAX, FLT_MAX},
    {"clt_erf", erf, 6.0, TINY, -INFINITY, INFINITY},
    {"clt_gelu_erf", ref_gelu_erf, 2.0, 2e-7, -INFINITY, INFINITY},
    {"clt_dgelu_erf", ref_dgelu_erf, 2.0, 2e-7, -FLT_MAX, FLT_MAX},
    {"clt_gelu_tanh", ref_gelu_tanh, 2.0, 2e-7, -FLT_MAX, FLT_MAX},
    {"clt_dgelu_tanh", ref_dgelu_tanh, 2.0, 2e-6, -INFINITY, INFINITY},
};

static const char source[] =
    "#include \"common.clh\"\n"
    "#include \"lanes.clh\"\n"
    "#ifndef FN\n#error a function is missing\n#endif\n"
    "__kernel void function_one(__global float *y, ulong y0, __global const float *x, ulong x0, uint n)\n"
    "{ size_t i = get_global_id(0); if (i < n) y[y0 + i] = FN(x[x0 + i]); }\n"
    "__kernel void function_sixteen(__global float *y, ulong y0, __global const float *x, ulong x0, uint n)\n"
    "{ size_t i = get_global_id(0); if (i < n) vstore16(CLT_CAT(FN, 16)(vload16(i, x + x0)), i, y + y0); }\n";

static void run(const char *kernel, const char *name, uint32_t items, float *y)
{
    test_tensors tensors = {0};
    ocl_command_list list = {0};
    ocl_exec *exec;
    assert_ok(clt_arena_create(&list.arena));
    assert_ok(ocl_buffer_create(device, sizeof input, "y", &tensors.buffer[0]));
    assert_ok(ocl_buffer_create(device, sizeof input, "x", &tensors.buffer[1]));
    assert_ok(ocl_write(tensors.buffer[1], 0, input, sizeof input));
    ocl_emitter e = {.list = &list, .device = ocl_device_describe(device), .label = kernel};
    ocl_kernel_begin(&e, "functions_test", kernel);
    ocl_define_text(&e, "FN", name);
    ocl_arg_out(&e, 0, CLT_F32, COUNT);
    ocl_arg_in(&e, 1, CLT_F32, COUNT);
    ocl_arg_u32(&e, items);
    ocl_kernel_end_1d(&e, items, 0, 0);
    assert_ok(ocl_emit_status(&e));
    assert_ok(ocl_exec_create(
        device, &list, &(ocl_exec_options){.resolve = test_resolve, .resolve_context = &tensors}, &exec));
    assert_ok(ocl_exec_run(exec, NULL));
    assert_ok(ocl_read(tensors.buffer[0], 0, y, sizeof input));
    ocl_exec_destroy(exec);
    ocl_emitter_free(&e);
    clt_arena *arena = list.arena;
    ocl_command_list_free(&list);
    clt_arena_destroy(arena);
    ocl_buffer_destroy(tensors.buffer[0]);
    ocl_buffer_destroy(tensors.buffer[1]);
}

/* Distance between the floats at |value|. */
static double ulp_of(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

/* The error as a multiple of the bound: more than 1 is wrong. */
static double judge(const function *f, double x, float got)
{
    double want = f->reference(x);
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0.0 : (double)INFINITY;
    if (isinf((float)want) || isinf(got))
        return (float)want == got ? 0.0 : (double)INFINITY;
    double error = fabs((double)got - want);
    return error > 0.0 ? error / (f->ulp * ulp_of(want) + f->absolute) : 0.0;
}

static void test_every_function(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof functions / sizeof functions[0]; k++) {
        const function *f = &functions[k];
        double worst = 0.0;
        int at = 0;
        run("function_one", f->name, COUNT, one);
        run("function_sixteen", f->name, COUNT / 16, sixteen);
        for (int i = 0; i < COUNT; i++) {
            double x = (double)input[i];
            if (!(isnan(one[i]) && isnan(sixteen[i])) && memcmp(&one[i], &sixteen[i], sizeof one[i]) != 0)
                fail_msg("%s(%a): %a for one number, %a for sixteen", f->name, x, (double)one[i],
                         (double)sixteen[i]);
            if (!isnan(x) && !(x >= f->lo && x <= f->hi))
                continue;
            double error = judge(f, x, one[i]);
            if (error > worst) {
                worst = error;
                at = i;
            }
        }
        print_message("%-16s %.2f of its bound at %a\n", f->name, worst, (double)input[at]);
        if (worst > 1.0)
            fail_msg("%s(%a) is %a, the reference %a: %.3g times the bound", f->name, (double)input[at],
                     (double)one[at], f->reference((double)input[at]), worst);
    }
}

/* Every upper half of a float with two lower halves, dense numbers in the middle, and known difficult
 * ones. */
static void fill(void)
{
    static const float special[SPECIALS] = {0.0f,
                                            -0.0f,
                                            NAN,
                                            -NAN,
                                            INFINITY,
                                            -INFINITY,
                                            FLT_MAX,
                                            -FLT_MAX,
                                            FLT_MIN,
                                            -FLT_MIN,
                                            0x1p-149f,
                                            -0x1p-149f,
                                            0x1.fffffcp-127f,
                                            1.0f,
                                            -1.0f,
                                            0.5f,
                                            -0.5f,
                                            88.72283f,
                                            88.72284f,
                                            -87.33654f,
                                            -87.33655f,
                                            -86.9f,
                                            -103.97f,
                                            0x1.fffffep-1f,
                                            0x1.000002p0f,
                                            3.85f,
                                            -3.85f,
                                            10.219324f,
                                            -10.219325f,
                                            1e30f,
                                            -1e38f,
                                            0x1.6a09e6p-1f};
    uint32_t random = 2463534242u; /* xorshift */
    for (int i = 0; i < PATTERNS + DENSE; i++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        uint32_t bits = (uint32_t)(i / 2) << 16 | (i % 2 == 0 ? 0u : random >> 16);
        if (i < PATTERNS)
            memcpy(&input[i], &bits, sizeof bits);
        else
            input[i] = ((float)random * 0x1p-31f - 1.0f) * (i % 3 == 0 ? 100.0f : i % 3 == 1 ? 8.0f : 1.0f);
    }
    memcpy(input + PATTERNS + DENSE, special, sizeof special);
}

static int open_with(uint32_t caps)
{
    ocl_open_options options = {.spec = NULL, .caps_mask = caps};
    return ocl_device_open(&options, &device) == CLT_OK ? 0 : 1;
}
FIXTURE(setup)
{
    return open_with(OCL_CAPS_ALL);
}
FIXTURE(setup_bare)
{
    return open_with(0);
}
FIXTURE(teardown)
{
    ocl_device_close(device);
    return 0;
}

int main(void)
{
    if (!test_has_device())
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_function, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_function, setup_bare, teardown),
    };
    fill();
    test_kernel_folder(folder);
    test_write_source(folder, "functions_test.cl", source);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    assert_ok(clt_remove_tree(folder));
    return failed;
}
