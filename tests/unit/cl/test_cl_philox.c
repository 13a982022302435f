/* SPDX-License-Identifier: Apache-2.0
 *
 * The generator and the 16-bit conversions of common.clh are bit-equal to the host's, and both to the
 * published known answers of Philox4x32-10 (Random123, kat_vectors). ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "engine/base/dtype.h"
#include "engine/base/rng.h"

static char folder[64];

static const char source[] =
    "#ifndef DT\n#define DT f32\n#endif\n"
    "#include \"common.clh\"\n"
    "#include \"random.clh\"\n"
    "__kernel void philox(__global uint *y, ulong yo, __global const uint *x, ulong xo, uint n)\n"
    "{ size_t i = get_global_id(0); if (i >= n) return;\n"
    "  x += xo + i * 6; vstore4(clt_philox((uint4)(x[0], x[1], x[2], x[3]), (uint2)(x[4], x[5])), i, y + "
    "yo); }\n"
    "__kernel void stream(__global uint *y, ulong yo, __global const uint *sb, ulong xo, uint op, uint n)\n"
    "{ size_t i = get_global_id(0); if (i >= n) return;\n"
    "  ulong block = ((ulong)i << 29) + i; vstore4(clt_rng_block(sb + xo, CLT_RNG_DROPOUT, op, block), i, y "
    "+ "
    "yo); }\n"
    "__kernel void uniform_of(__global float *y, ulong yo, __global const uint *x, ulong xo, uint n)\n"
    "{ size_t i = get_global_id(0); if (i < n) y[yo + i] = clt_uniform(x[xo + i]); }\n"
    "__kernel void convert(__global ushort *y, ulong yo, __global const float *x, ulong xo, uint n)\n"
    "{ size_t i = get_global_id(0); if (i < n) STORE(DT, y + yo, i, x[xo + i]); }\n"
    "__kernel void widen(__global float *y, ulong yo, __global const ushort *x, ulong xo, uint n)\n"
    "{ size_t i = get_global_id(0); if (i < n) y[yo + i] = LOAD(DT, x + xo, i); }\n";

static ocl_device *device;

/* Runs one kernel of the form (y, x, [op,] n); y and x are whole buffers. */
static void run(const char *kernel, const char *dt, const void *x, size_t x_bytes, void *y, size_t y_bytes,
                int32_t op, uint32_t n)
{
    test_tensors tensors = {0};
    ocl_command_list list = {0};
    ocl_exec *exec;
    assert_ok(clt_arena_create(&list.arena));
    assert_ok(ocl_buffer_create(device, y_bytes, "y", &tensors.buffer[0]));
    assert_ok(ocl_buffer_create(device, x_bytes, "x", &tensors.buffer[1]));
    assert_ok(ocl_write(tensors.buffer[1], 0, x, x_bytes));
    ocl_emitter e = {.list = &list, .device = ocl_device_describe(device), .label = kernel};
    ocl_kernel_begin(&e, "philox_test", kernel);
    ocl_define_text(&e, "DT", dt);
    ocl_arg_out(&e, 0, CLT_U8, y_bytes);
    ocl_arg_in(&e, 1, CLT_U8, x_bytes);
    if (op >= 0)
        ocl_arg_u32(&e, (uint32_t)op);
    ocl_arg_u32(&e, n);
    ocl_kernel_end_1d(&e, n, 0, 0);
    assert_ok(ocl_emit_status(&e));
    assert_ok(ocl_exec_create(
        device, &list, &(ocl_exec_options){.resolve = test_resolve, .resolve_context = &tensors}, &exec));
    assert_ok(ocl_exec_run(exec, NULL));
    assert_ok(ocl_read(tensors.buffer[0], 0, y, y_bytes));
    ocl_exec_destroy(exec);
    ocl_emitter_free(&e);
    clt_arena *arena = list.arena;
    ocl_command_list_free(&list);
    clt_arena_destroy(arena);
    ocl_buffer_destroy(tensors.buffer[0]);
    ocl_buffer_destroy(tensors.buffer[1]);
}

TEST(test_known_answers)
{
    static const uint32_t in[3][6] = {
        {0, 0, 0, 0, 0, 0},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0},
    };
    static const uint32_t want[3][4] = {
        {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    uint32_t got[3][4];
    run("philox", "f32", in, sizeof in, got, sizeof got, -1, 3);
    assert_memory_equal(got, want, sizeof want);
    for (int i = 0; i < 3; i++) {
        uint32_t host[4];
        clt_philox4x32(in[i], in[i] + 4, host);
        assert_memory_equal(host, want[i], sizeof host);
    }
}

enum { RANDOM_COUNT = 2000 };

TEST(test_random_counters)
{
    static uint32_t in[RANDOM_COUNT][6], got[RANDOM_COUNT][4];
    uint64_t x = 88172645463325252u; /* xorshift: not the generator under test */
    for (int i = 0; i < RANDOM_COUNT; i++) {
        for (int j = 0; j < 6; j++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            in[i][j] = (uint32_t)(x >> 16);
        }
    }
    run("philox", "f32", in, sizeof in, got, sizeof got, -1, RANDOM_COUNT);
    for (int i = 0; i < RANDOM_COUNT; i++) {
        uint32_t host[4];
        clt_philox4x32(in[i], in[i] + 4, host);
        assert_memory_equal(host, got[i], sizeof host);
    }
}

TEST(test_stream)
{
    enum { N = 300, OP = 0x00abcdef, STEP = 77 };
    const uint64_t seed = UINT64_C(0x0123456789abcdef);
    uint32_t block[32] = {(uint32_t)seed, (uint32_t)(seed >> 32), STEP}; /* a step block */
    static uint32_t got[N][4], words[N * 4];
    static float uniform[N * 4];
    run("stream", "f32", block, sizeof block, got, sizeof got, OP, N);
    for (uint64_t i = 0; i < N; i++) {
        uint32_t host[4];
        clt_rng_block(seed, CLT_RNG_DROPOUT, OP, STEP, (i << 29) + i, host);
        assert_memory_equal(host, got[i], sizeof host);
        assert_int_equal(clt_rng_u32(seed, CLT_RNG_DROPOUT, OP, STEP, 4 * ((i << 29) + i) + 2), host[2]);
    }
    memcpy(words, got, sizeof words);
    words[0] = UINT32_MAX;
    words[1] = 0;
    run("uniform_of", "f32", words, sizeof words, uniform, sizeof uniform, -1, N * 4);
    for (int i = 0; i < N * 4; i++) {
        assert_true(uniform[i] == clt_rng_uniform(words[i]));
        assert_true(uniform[i] >= 0.0f && uniform[i] < 1.0f);
    }
}

static bool is_nan_bits(uint16_t h, bool bf16)
{
    return bf16 ? (h & 0x7fffu) > 0x7f80u : (h & 0x7fffu) > 0x7c00u;
}

/* Every 16-bit pattern widened, and floats around every rounding boundary narrowed, on host and device. */
static void check_conversions(bool bf16)
{
    static uint16_t half[65536], narrowed[65536 * 3];
    static float wide[65536], values[65536 * 3];
    const char *dt = bf16 ? "bf16" : "f16";
    for (uint32_t i = 0; i < 65536; i++)
        half[i] = (uint16_t)i;
    run("widen", dt, half, sizeof half, wide, sizeof wide, -1, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        float host = bf16 ? clt_bf16_to_f32(half[i]) : clt_f16_to_f32(half[i]);
        if (!is_nan_bits(half[i], bf16))
            assert_memory_equal(&host, &wide[i], 4);
        else
            assert_true(wide[i] != wide[i]);
        uint32_t bits,
            step = bf16 ? 0x8000u : 0x1000u; /* half of the last kept place: ties, and one beside them */
        memcpy(&bits, &host, 4);
        for (uint32_t j = 0; j < 3; j++) {
            uint32_t moved = bits + (j == 0 ? 0 : j == 1 ? step : step + 1);
            memcpy(&values[3 * i + j], &moved, 4);
        }
    }
    run("convert", dt, values, sizeof values, narrowed, sizeof narrowed, -1, 65536 * 3);
    for (uint32_t i = 0; i < 65536 * 3; i++) {
        uint16_t host = bf16 ? clt_f32_to_bf16(values[i]) : clt_f32_to_f16(values[i]);
        if (values[i] != values[i] ? !is_nan_bits(narrowed[i], bf16) : narrowed[i] != host)
            fail_msg("%s of %a is 0x%04x on the device and 0x%04x on the host", dt, (double)values[i],
                     narrowed[i], host);
    }
}

TEST(test_f16)
{
    check_conversions(false);
}

TEST(test_bf16)
{
    check_conversions(true);
}

FIXTURE(setup)
{
    test_kernel_folder(folder);
    test_write_source(folder, "philox_test.cl", source);
    device = test_open(false);
    return 0;
}

FIXTURE(teardown)
{
    ocl_device_close(device);
    return clt_remove_tree(folder) == CLT_OK ? 0 : 1;
}

TEST_PROGRAM(.device = true, .set_up = setup, .tear_down = teardown);
