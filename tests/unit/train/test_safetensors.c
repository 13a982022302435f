/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The 64-bit hash, the safetensors writer, and the reader with malicious files: each kind of false header is
 * refused with a message of its own. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <math.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/checkpoint/checkpoint.h"

static char folder[64], path[128];

FIXTURE(make_folder)
{
    /* Thousands of small files: in memory where possible. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(folder, sizeof folder, "%s/cltrain-test-safetensors-XXXXXX", base);
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

FIXTURE(remove_folder)
{
    return clt_remove_tree(folder) == CLT_OK ? 0 : -1;
}

static void put_bytes(const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    assert_int_equal(close(fd), 0);
}

static void assert_text_has(const char *part)
{
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

/* --- hash --- */

TEST(hash_has_the_published_values)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {{"", 0xef46db3751d8e999ULL},
                 {"a", 0xd24ec4f1a98c6e5bULL},
                 {"abc", 0x44bc2cf5ad770999ULL},
                 {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1ULL}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(clt_hash64(known[i].text, strlen(known[i].text)) == known[i].hash);
    char text[CLT_HASH64_TEXT];
    assert_string_equal(clt_hash64_text(0xabcULL, text), "0000000000000abc");
}

TEST(hash_in_parts_is_the_hash_of_the_whole)
{
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)clt_rng_u32(1, CLT_RNG_VERIFY, 0, 0, i);
    for (size_t size = 0; size <= sizeof data; size++) {
        const uint64_t whole = clt_hash64(data, size);
        for (size_t first = 0; first <= size; first += 7) {
            const size_t second = (size - first) / 2;
            clt_hash64_state part;
            clt_hash64_begin(&part);
            clt_hash64_add(&part, data, first);
            clt_hash64_add(&part, data + first, second);
            clt_hash64_add(&part, data + first + second, size - first - second);
            assert_true(clt_hash64_end(&part) == whole);
        }
    }
}

/* --- round trip --- */

static const float values[6] = {1.5F, -2.25F, 3.0F, 0.0F, -0.0F, 1e-30F};

TEST_BETWEEN(every_type_and_shape_survives, make_folder, remove_folder)
{
    static const double wide[2] = {1.0 / 3.0, -1e300};
    static const uint16_t half[3] = {0x3c00, 0xc000, 0x3555}, brain[3] = {0x3f80, 0xc000, 0x4049};
    static const int32_t whole[2] = {-7, INT32_MAX};
    static const int64_t large[1] = {INT64_MIN};
    static const uint8_t bytes[3] = {1, 2, 255};
    static const uint16_t shorts[1] = {65535};
    static const uint32_t words[1] = {UINT32_MAX};
    const clt_named_tensor tensors[] = {{"h.0/weight", CLT_F32, clt_shape2(2, 3), values},
                                        {"bytes", CLT_U8, clt_shape1(3), bytes},
                                        {"scalar", CLT_F32, {0}, values + 2},
                                        {"empty", CLT_F32, clt_shape2(0, 5), NULL},
                                        {"f16", CLT_F16, clt_shape1(3), half},
                                        {"bf16", CLT_BF16, clt_shape1(3), brain},
                                        {"f64", CLT_F64, clt_shape1(2), wide},
                                        {"i32", CLT_I32, clt_shape4(1, 2, 1, 1), whole},
                                        {"i64", CLT_I64, clt_shape1(1), large},
                                        {"u16", CLT_U16, clt_shape1(1), shorts},
                                        {"\"quoted\\ \xc3\xa9\n", CLT_U32, clt_shape1(1), words}};
    enum { COUNT = sizeof tensors / sizeof tensors[0] };
    static const char *const metadata[] = {"format", "pt", "note", "two words"};
    uint64_t hash = 0;
    assert_ok(clt_safetensors_write(path, tensors, COUNT, metadata, 2, &hash));

    char *bytes_read = NULL;
    size_t size = 0;
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &bytes_read, &size));
    assert_true(clt_hash64(bytes_read, size) == hash);
    uint64_t header = 0;
    memcpy(&header, bytes_read, 8);
    assert_int_equal((8 + header) % 8, 0);
    assert_int_equal(size, 8 + header + clt_named_tensors_bytes(tensors, COUNT));
    free(bytes_read);

    CLT_SCOPED(clt_safetensors) *file = NULL;
    assert_ok(clt_safetensors_open(path, &file));
    assert_int_equal(clt_safetensors_count(file), COUNT);
    for (int i = 0; i < COUNT; i++) {
        const clt_named_tensor *t = clt_safetensors_at(file, i);
        assert_string_equal(t->name, tensors[i].name);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_true(clt_shape_equal(&t->shape, &tensors[i].shape));
        const size_t n = (size_t)clt_named_tensors_bytes(t, 1);
        assert_true(n == 0 || memcmp(t->data, tensors[i].data, n) == 0);
        assert_ptr_equal(clt_safetensors_find(file, tensors[i].name), t);
    }
    assert_null(clt_safetensors_find(file, "absent"));
    assert_null(clt_safetensors_at(file, COUNT));
    assert_null(clt_safetensors_at(file, -1));
    assert_string_equal(clt_safetensors_metadata(file, "note"), "two words");
    assert_null(clt_safetensors_metadata(file, "absent"));

    float out[6];
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(file, "h.0/weight"), out));
    assert_memory_equal(out, values, sizeof values);
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(file, "f16"), out));
    assert_true(out[0] == 1.0F && out[1] == -2.0F && fabsf(out[2] - 1.0F / 3.0F) < 1e-3F);
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(file, "bf16"), out));
    assert_true(out[0] == 1.0F && out[1] == -2.0F && out[2] == 3.140625F);
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(file, "f64"), out));
    assert_true(out[0] == (float)(1.0 / 3.0) && isinf(out[1]));
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(file, "empty"), out));
    assert_int_equal(clt_named_tensor_to_f32(clt_safetensors_find(file, "i32"), out), CLT_ECHECKPOINT);
    assert_text_has("\"i32\" is I32");
}

TEST_BETWEEN(no_tensors_make_a_valid_file, make_folder, remove_folder)
{
    clt_safetensors *file = NULL;
    assert_ok(clt_safetensors_write(path, NULL, 0, NULL, 0, NULL));
    assert_ok(clt_safetensors_open(path, &file));
    assert_int_equal(clt_safetensors_count(file), 0);
    assert_null(clt_safetensors_find(file, "x"));
    clt_safetensors_close(file);
    clt_safetensors_close(NULL);
}

TEST_BETWEEN(writer_refuses_what_no_reader_accepts, make_folder, remove_folder)
{
    clt_named_tensor twice[2] = {{"w", CLT_F32, clt_shape1(2), values},
                                 {"w", CLT_F32, clt_shape1(2), values}};
    assert_int_equal(clt_safetensors_write(path, twice, 2, NULL, 0, NULL), CLT_EINTERNAL);
    assert_text_has("\"w\"");
    twice[1].name = "not utf-8 \xff";
    assert_int_equal(clt_safetensors_write(path, twice, 2, NULL, 0, NULL), CLT_EINTERNAL);
    twice[1].name = "__metadata__";
    assert_int_equal(clt_safetensors_write(path, twice, 2, NULL, 0, NULL), CLT_EINTERNAL);
    assert_false(clt_file_exists(path));
}

TEST(finite_check_names_tensor_and_place)
{
    float x[40] = {0};
    double y[3] = {0};
    uint16_t half[4] = {0}, brain[4] = {0};
    const int32_t all_ones[2] = {-1, 0x7f800000};
    const clt_named_tensor t[] = {{"x", CLT_F32, clt_shape1(40), x},
                                  {"y", CLT_F64, clt_shape1(3), y},
                                  {"half", CLT_F16, clt_shape1(4), half},
                                  {"brain", CLT_BF16, clt_shape1(4), brain},
                                  {"ids", CLT_I32, clt_shape1(2), all_ones}};
    assert_ok(clt_named_tensors_check_finite(t, 5));
    x[37] = -INFINITY;
    assert_int_equal(clt_named_tensors_check_finite(t, 5), CLT_ENUMERIC);
    assert_text_has("tensor \"x\" holds an infinity at element 37 of 40");
    x[37] = 3.4e38F;
    y[2] = (double)NAN;
    assert_int_equal(clt_named_tensors_check_finite(t, 5), CLT_ENUMERIC);
    assert_text_has("tensor \"y\" holds a NaN at element 2 of 3");
    y[2] = 1e308;
    half[1] = 0x7c00;
    assert_int_equal(clt_named_tensors_check_finite(t, 5), CLT_ENUMERIC);
    assert_text_has("\"half\" holds an infinity");
    half[1] = 0x7bff;
    brain[3] = 0x7fc0;
    assert_int_equal(clt_named_tensors_check_finite(t, 5), CLT_ENUMERIC);
    assert_text_has("\"brain\" holds a NaN");
}

/* --- hostile files --- */

/* Header text (its length is prepended), then `data` bytes of zeros. */
typedef struct hostile {
    const char *header;
    size_t data;
    const char *message;
} hostile;

#define T(name, dtype, shape, offsets)                                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const hostile liars[] = {
    {"[]", 0, "does not start with '{'"},
    {" {}", 0, "does not start with '{'"},
    {"", 0, "does not start with '{'"},
    {"{" T("a", "F32", "[1]", "[0,4]"), 4, "x.safetensors:1:"}, /* the JSON is cut off */
    {"{nonsense}", 0, "x.safetensors:1:"},
    {"{}{}", 0, "x.safetensors:1:"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "duplicate"},
    {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12, "\"a\" and \"b\" overlap"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12,
     "hole of 4 bytes before the data of tensor \"b\""},
    {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "hole of 4 bytes"},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", 6, "2 bytes follow the data of the last tensor"},
    {"{}", 3, "3 bytes follow"},
    {"{" T("a", "F32", "[4611686018427387904,4]", "[0,0]") "}", 0, "overflows"},
    {"{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows"},
    {"{" T("a", "F32", "[0,4294967296,4294967296]", "[0,0]") "}", 0, "overflows"},
    {"{" T("a", "F32", "[9223372036854775807]", "[0,4]") "}", 4, "overflows"},
    {"{" T("a", "F32", "[18446744073709551616]", "[0,0]") "}", 0, "not a whole number"},
    {"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, "not a whole number"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "negative dimension -1"},
    {"{" T("a", "F32", "[-1,-1]", "[0,4]") "}", 4, "negative dimension"},
    {"{" T("a", "F32", "1", "[0,4]") "}", 4, "no \"shape\" array"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no \"dtype\" text"},
    {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "F32 (2), which is 8 bytes, but its data offsets span 4"},
    {"{" T("a", "F32", "[]", "[0,8]") "}", 8, "4 bytes, but its data offsets span 8"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[2]", "[4,12]") "}", 4,
     "\"b\" ends at byte 12 of the data, past the end"},
    {"{" T("a", "F32", "[1]", "[9223372036854775803,9223372036854775807]") "}", 4, "past the end"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "not a range"},
    {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "not a range"},
    {"{" T("a", "F32", "[1]", "[0]") "}", 4, "not an array of two"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "not an array of two"},
    {"{" T("a", "F32", "[1]", "[0,4e0]") "}", 4, "not an array of two"},
    {"{" T("a", "F32", "[1]", "\"0,4\"") "}", 4, "not an array of two"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "and nothing else"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "and nothing else"},
    {"{\"a\":[0,4]}", 4, "tensor \"a\" is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "metadata \"k\" is a number, not text"},
    {"{\"__metadata__\":[]}", 0, "is not an object"},
    {"{\"a\\u0000b\":{}}", 0, "x.safetensors:1:"},
};

/* Types and ranks that the engine does not store matter only to readers of that tensor. */
TEST_BETWEEN(unknown_types_are_kept, make_folder, remove_folder)
{
    static const char header[] = "{" T("a", "F99", "[3]", "[0,5]") "," T("b", "F32", "[1]", "[5,9]") "," T(
        "c", "BOOL", "[4]", "[9,13]") "," T("d", "F32", "[1,1,1,1,1,1,2]", "[13,21]") "}";
    uint8_t bytes[1024] = {0};
    const uint64_t length = strlen(header);
    CLT_SCOPED(clt_safetensors) *file = NULL;
    float value[4];
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    put_bytes(bytes, 8 + length + 21);
    assert_ok(clt_safetensors_open(path, &file));
    assert_int_equal(clt_safetensors_count(file), 4);
    const clt_named_tensor *a = clt_safetensors_find(file, "a"), *b = clt_safetensors_find(file, "b"),
                           *c = clt_safetensors_find(file, "c"), *d = clt_safetensors_find(file, "d");
    assert_string_equal(clt_safetensors_type(file, a), "F99");
    assert_string_equal(clt_safetensors_type(file, b), "F32");
    assert_string_equal(clt_safetensors_type(file, c), "BOOL");
    assert_false(clt_dtype_is_float(a->dtype) || clt_dtype_is_float(c->dtype));
    assert_int_equal(d->shape.ndim, -1);
    assert_ok(clt_named_tensor_to_f32(b, value));
    assert_int_equal(clt_named_tensor_to_f32(a, value), CLT_ECHECKPOINT);
    assert_text_has("\"a\"");
}

TEST_BETWEEN(prefixes_are_taken_off, make_folder, remove_folder)
{
    static const char header[] = "{" T("m.a", "F32", "[1]", "[0,4]") "," T("z", "F32", "[1]", "[4,8]") "," T(
        "m.z", "F32", "[1]", "[8,12]") "}";
    uint8_t bytes[1024] = {0};
    const uint64_t length = strlen(header);
    clt_safetensors *file;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    put_bytes(bytes, 8 + length + 12);
    assert_ok(clt_safetensors_open(path, &file));
    assert_int_equal(clt_safetensors_strip_prefix(file, "m."), CLT_ECHECKPOINT);
    assert_text_has("\"z\" is there with the prefix 'm.' and without it");
    clt_safetensors_close(file);
    bytes[8 + (strstr(header, "\"z\"") + 1 - header)] = 'y';
    put_bytes(bytes, 8 + length + 12);
    assert_ok(clt_safetensors_open(path, &file));
    assert_ok(clt_safetensors_strip_prefix(file, "m."));
    static const char *const names[] = {"a", "y", "z"};
    for (int i = 0; i < 3; i++)
        assert_string_equal(clt_safetensors_find(file, names[i])->name, names[i]);
    assert_null(clt_safetensors_find(file, "m.a"));
    clt_safetensors_close(file);
}

TEST_BETWEEN(each_lie_is_refused_with_its_own_message, make_folder, remove_folder)
{
    for (size_t i = 0; i < sizeof liars / sizeof liars[0]; i++) {
        uint8_t bytes[1024] = {0};
        const uint64_t length = strlen(liars[i].header);
        memcpy(bytes, &length, 8);
        memcpy(bytes + 8, liars[i].header, length);
        put_bytes(bytes, 8 + length + liars[i].data);
        clt_safetensors *file = (clt_safetensors *)&file;
        if (clt_safetensors_open(path, &file) != CLT_ECHECKPOINT)
            fail_msg("accepted: %s", liars[i].header);
        assert_null(file);
        assert_text_has("x.safetensors");
        assert_text_has(liars[i].message);
    }
}

TEST_BETWEEN(bad_header_lengths_are_refused, make_folder, remove_folder)
{
    static const struct {
        uint64_t length, size;
        const char *message;
    } cases[] = {{UINT64_C(1) << 63, 100, "more than the format allows"},
                 {UINT64_MAX, 100, "more than the format allows"},
                 {100000001, 100000100, "more than the format allows"}, /* inside the (sparse) file */
                 {93, 100, "only 92 follow"},
                 {100000000, 100, "only 92 follow"},
                 {0, 7, "too few"},
                 {0, 0, "too few"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_bytes(&cases[i].length, 8);
        assert_int_equal(truncate(path, (off_t)cases[i].size), 0);
        clt_safetensors *file = NULL;
        assert_int_equal(clt_safetensors_open(path, &file), CLT_ECHECKPOINT);
        assert_text_has(cases[i].message);
    }
    assert_int_equal(clt_safetensors_open("/nonexistent/x.safetensors", &(clt_safetensors *){NULL}),
                     CLT_ECHECKPOINT);
    assert_text_has("/nonexistent/x.safetensors");
}

/* Whatever a header contains, the reader accepts or refuses it, and what it accepts is inside the file. */
TEST_BETWEEN(mutated_headers_never_escape_the_file, make_folder, remove_folder)
{
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\"}," T("a", "F32", "[2,3]", "[0,24]") "," T(
        "b", "BF16", "[4]", "[24,32]") "}";
    static const char alphabet[] = "0123456789-[]{},:\"eE.\\ aFB\x00\xff";
    int accepted = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t bytes[8 + sizeof header - 1 + 32] = {0};
        const uint64_t length = sizeof header - 1;
        memcpy(bytes, &length, 8);
        memcpy(bytes + 8, header, length);
        for (uint32_t k = 0; k < 1 + round % 3; k++) {
            const uint32_t at = clt_rng_u32(2, CLT_RNG_VERIFY, k, round, 0) % (uint32_t)(8 + length);
            const uint32_t what =
                clt_rng_u32(2, CLT_RNG_VERIFY, k, round, 1) % (uint32_t)(sizeof alphabet - 1);
            bytes[at] = (uint8_t)alphabet[what];
        }
        put_bytes(bytes, sizeof bytes);
        CLT_SCOPED(clt_safetensors) *file = NULL;
        clt_status status = clt_safetensors_open(path, &file);
        assert_true(status == CLT_OK || status == CLT_ECHECKPOINT);
        uint64_t total = 0;
        for (int i = 0; status == CLT_OK && i < clt_safetensors_count(file); i++) {
            const clt_named_tensor *t = clt_safetensors_at(file, i);
            float out[64];
            total += clt_named_tensors_bytes(t, 1);
            if (clt_dtype_is_float(t->dtype))
                assert_ok(clt_named_tensor_to_f32(t, out));
        }
        assert_true(total <= 32);
        accepted += status == CLT_OK;
    }
    assert_in_range(accepted, 1, 1500); /* changed names and metadata are accepted; most changes are not */
}

/* A file is cut while its values are read: they read as zeros, and the check reports it. */
TEST_BETWEEN(a_file_that_is_cut_is_noticed, make_folder, remove_folder)
{
    enum { N = 20000 };
    static float ones[N];
    float *read;
    for (int i = 0; i < N; i++)
        ones[i] = 1.0f;
    const clt_named_tensor tensor = {"w", CLT_F32, clt_shape1(N), ones};
    assert_ok(clt_safetensors_write(path, &tensor, 1, NULL, 0, NULL));
    clt_safetensors *file, *joined;
    const char *paths[1] = {path};
    assert_ok(clt_safetensors_open(path, &file));
    assert_ok(clt_safetensors_open_parts(paths, 1, &joined));
    assert_ok(clt_safetensors_whole(file));
    assert_ok(clt_safetensors_whole(joined));
    assert_ok(clt_safetensors_whole(NULL));
    assert_int_equal(truncate(path, N), 0);
    assert_ok(clt_alloc(&read, N, sizeof *read, "values"));
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_at(file, 0), read));
    assert_true(read[0] == 1.0f && read[N - 1] == 0.0f);
    assert_int_equal(clt_safetensors_whole(file), CLT_ECHECKPOINT);
    assert_text_has("x.safetensors': it ends after 20000 bytes now");
    assert_int_equal(clt_safetensors_whole(joined), CLT_ECHECKPOINT);
    free(read);
    clt_safetensors_close(file);
    clt_safetensors_close(joined);
}
