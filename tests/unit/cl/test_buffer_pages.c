/* SPDX-License-Identifier: Apache-2.0
 *
 * Which buffers of a CPU device lie on pages that cltrain allocates, and when the pages are released: once,
 * after the last command that uses the buffer; if there are no pages, the driver's own memory is used. This
 * program defines the functions of engine/host/pages.c itself, so that it can count calls and refuse.
 * ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "cl/command/memory.h"

#define MIB (UINT64_C(1) << 20)
#define MOST 16

typedef struct block {
    void *pages;
    uint64_t bytes;
} block;

static struct {
    int created, destroyed, asked, taken;
    bool refuse;
    block live[MOST];
} ledger;

/* Memory from malloc, so that AddressSanitizer notices use after release and leaks. */
clt_status clt_pages_create(uint64_t bytes, const char *what, void **out)
{
    *out = NULL;
    ledger.asked++;
    if (ledger.refuse)
        CLT_FAIL(CLT_ENOMEM, "allocating %s: refused by the test", what);
    if (posix_memalign(out, 4096, bytes) != 0)
        CLT_FAIL(CLT_ENOMEM, "allocating %s: no memory", what);
    memset(*out, 0, bytes);
    for (int i = 0; i < MOST; i++)
        if (ledger.live[i].pages == NULL) {
            ledger.live[i] = (block){*out, bytes};
            ledger.created++;
            return CLT_OK;
        }
    abort();
}

void clt_pages_prefault(void *pages, uint64_t bytes)
{
    (void)pages;
    (void)bytes;
    ledger.taken++;
}

/* Drivers call this from their own threads, but never two at a time here: each test holds one buffer. */
void clt_pages_destroy(void *pages, uint64_t bytes)
{
    if (pages == NULL)
        return;
    for (int i = 0; i < MOST; i++)
        if (ledger.live[i].pages == pages && ledger.live[i].bytes == bytes) {
            ledger.live[i] = (block){0};
            ledger.destroyed++;
            free(pages);
            return;
        }
    fprintf(stderr, "pages %p of %llu bytes are freed twice, or with another size\n", pages,
            (unsigned long long)bytes);
    abort();
}

static void begin(bool refuse)
{
    memset(&ledger, 0, sizeof ledger);
    ledger.refuse = refuse;
}

/* Writes, copies inside the device, reads back. */
static void use(ocl_buffer *buffer, uint64_t bytes)
{
    uint32_t *there = malloc(bytes), *back = calloc(1, bytes);
    assert_non_null(there);
    assert_non_null(back);
    for (uint64_t i = 0; i < bytes / 4; i++)
        there[i] = (uint32_t)i * 2654435761u;
    assert_ok(ocl_write(buffer, 0, there, bytes));
    assert_ok(ocl_read(buffer, 0, back, bytes));
    assert_memory_equal(there, back, bytes);
    free(there);
    free(back);
}

static void one_buffer(uint64_t bytes, bool refuse, int asked, int created)
{
    ocl_device *device = test_open(false);
    ocl_buffer *buffer;
    begin(refuse);
    assert_ok(ocl_buffer_create(device, bytes, "a test", &buffer));
    assert_int_equal(ledger.asked, asked);
    assert_int_equal(ledger.created, created);
    assert_int_equal(ocl_device_bytes(device), bytes);
    assert_string_equal(clt_error_text(), ""); /* a refusal with a fallback leaves no message */
    use(buffer, bytes);
    assert_int_equal(ledger.destroyed, 0);
    ocl_buffer_destroy(buffer);
    assert_int_equal(ocl_device_bytes(device), 0);
    ocl_device_close(device);
    assert_int_equal(ledger.destroyed, created);
}

static bool is_cpu(void)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    bool cpu = ocl_device_describe(device)->is_cpu;
    return cpu;
}

TEST(test_which_buffers)
{
    int own = is_cpu() ? 1 : 0; /* other devices use their own memory */
    one_buffer(8 * MIB, false, own, own);
    one_buffer(8 * MIB + 4096 + 12, false, own, own);
    one_buffer(8 * MIB - 4, false, 0, 0);
}

TEST(test_no_pages)
{
    one_buffer(16 * MIB, true, is_cpu() ? 1 : 0, 0);
}

/* Zeroing needs no fill on new pages of this program, which are zero, and needs one elsewhere. */
static void zeroed_buffer(uint64_t bytes, int taken)
{
    ocl_device *device = test_open(false);
    ocl_buffer *buffer;
    CLT_FREED uint8_t *back = malloc(bytes);
    assert_non_null(back);
    memset(back, 1, bytes);
    begin(false);
    assert_ok(ocl_buffer_create_zeroed(device, bytes, "zeros", &buffer));
    assert_int_equal(ledger.taken, taken);
    assert_ok(ocl_read(buffer, 0, back, bytes));
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(back[i], 0);
    use(buffer, bytes);
    ocl_buffer_destroy(buffer);
    assert_int_equal(ledger.destroyed, taken);
    ocl_device_close(device);
}

TEST(test_zeroed_buffers)
{
    zeroed_buffer(8 * MIB + 12, is_cpu() ? 1 : 0);
    zeroed_buffer(4 * MIB, 0);
}

/* A buffer that is destroyed while commands still use it. */
TEST(test_commands_in_flight)
{
    enum { ROUNDS = 8 };
    const uint64_t bytes = 16 * MIB;
    ocl_device *device = test_open(false);
    ocl_buffer *from, *to;
    uint32_t *back = calloc(1, bytes), *there = malloc(bytes);
    assert_non_null(back);
    assert_non_null(there);
    for (uint64_t i = 0; i < bytes / 4; i++)
        there[i] = (uint32_t)i ^ 0x9e3779b9u;
    begin(false);
    for (int round = 0; round < ROUNDS; round++) {
        memset(back, 0, bytes);
        assert_ok(ocl_buffer_create(device, bytes, "from", &from));
        assert_ok(ocl_buffer_create(device, bytes, "to", &to));
        assert_ok(ocl_write(from, 0, there, bytes));
        assert_ok(ocl_copy_async(OCL_QUEUE_COMPUTE, from, 0, to, 0, bytes, NULL, NULL));
        assert_ok(ocl_read_async(OCL_QUEUE_COMPUTE, to, 0, back, bytes, NULL, NULL));
        ocl_buffer_destroy(from);
        ocl_buffer_destroy(to);
        assert_ok(ocl_finish(device, OCL_QUEUE_COMPUTE));
        assert_memory_equal(there, back, bytes);
    }
    ocl_device_close(device);
    assert_int_equal(ledger.created, is_cpu() ? 2 * ROUNDS : 0);
    assert_int_equal(ledger.destroyed, ledger.created);
    free(back);
    free(there);
}

/* The driver refuses the buffer, or the device has no room: no pages stay allocated. */
TEST(test_refused_buffer)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_buffer *buffer = NULL;
    begin(false);
    uint64_t most = ocl_device_describe(device)->usable_bytes;
    assert_int_equal(ocl_buffer_create(device, most + MIB, "far too much", &buffer), CLT_EDEVMEM);
    assert_null(buffer);
    assert_int_equal(ledger.created, ledger.destroyed);
    clt_error_clear();
}

/* A buffer over the caller's memory: commands see what the host wrote while a range was mapped, and the
 * host sees their results in the same memory. */
TEST(test_callers_memory)
{
    const uint64_t bytes = 64 << 10, at = 4096, half = bytes / 2;
    ocl_device *device = test_open(false);
    ocl_buffer *buffer = NULL, *other = NULL;
    ocl_event *mapped = NULL, *back = NULL;
    uint32_t *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, 4096, bytes), 0);
    memset(memory, 0, bytes);
    begin(false);
    if (!is_cpu()) {
        assert_int_equal(ocl_buffer_create_over(device, memory, bytes, "shared", &buffer), CLT_EDEVMEM);
        clt_error_clear();
    } else {
        assert_ok(ocl_buffer_create_over(device, memory, bytes, "shared", &buffer));
        assert_ok(ocl_buffer_create(device, half, "other", &other));
        assert_ok(ocl_map_async(OCL_QUEUE_COPY, buffer, at, half, NULL, &mapped));
        assert_ok(ocl_event_wait(mapped));
        for (uint64_t i = 0; i < half / 4; i++)
            memory[at / 4 + i] = (uint32_t)i * 2654435761u;
        assert_ok(ocl_unmap_async(OCL_QUEUE_COPY, buffer, at, NULL, &back));
        assert_ok(ocl_copy_async(OCL_QUEUE_COMPUTE, buffer, at, other, 0, half, back, NULL));
        assert_ok(ocl_copy_async(OCL_QUEUE_COMPUTE, other, 0, buffer, half, half, NULL, NULL));
        ocl_event_release(mapped);
        ocl_event_release(back);
        assert_ok(ocl_map_async(OCL_QUEUE_COMPUTE, buffer, half, half, NULL, &mapped));
        assert_ok(ocl_event_wait(mapped));
        for (uint64_t i = 0; i < half / 4; i++)
            assert_int_equal(memory[half / 4 + i], (uint32_t)i * 2654435761u);
        assert_ok(ocl_unmap_async(OCL_QUEUE_COMPUTE, buffer, half, NULL, NULL));
        assert_ok(ocl_finish(device, OCL_QUEUE_COMPUTE));
        ocl_event_release(mapped);
        ocl_buffer_destroy(other);
        ocl_buffer_destroy(buffer);
    }
    ocl_device_close(device);
    free(memory);
}

TEST_PROGRAM(.device = true);
