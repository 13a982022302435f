/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * NIfTI files: real ones against values that an independent reader computed, written ones of every type and
 * byte order read back, and headers with false values. */
#include "tests/unit/data/data_test.h"

#include <math.h>

#include "engine/base/rng.h"
#include "engine/data/volumes/volume_file.h"
#include "engine/json/json.h"

/* --- real files --- */

static double number_of(const clt_json *object, const char *key)
{
    const clt_json *value = clt_json_get(object, key);
    assert_non_null(value);
    return clt_json_number(value);
}

static void compare_voxels(const clt_json *known, const float *values)
{
    const clt_json *samples = clt_json_get(known, "scaled_voxels");
    int compared = 0;
    for (const clt_json *v = clt_json_first(samples); v; v = clt_json_next(v), compared++) {
        long at = strtol(clt_json_key(v), NULL, 10);
        double want = clt_json_number(v);
        assert_true(fabs((double)values[at] - want) <= 1e-6 * (1 + fabs(want)));
    }
    assert_true(compared >= 4);
}

static void compare_file(const char *folder, const clt_json *known)
{
    char path[512];
    clt_volume v;
    (void)snprintf(path, sizeof path, "%s/%s", folder, clt_json_string(clt_json_get(known, "file")));
    assert_ok(clt_volume_open(&v, path, 1, "test"));
    int i = 0;
    for (const clt_json *d = clt_json_first(clt_json_get(known, "dim")); d; d = clt_json_next(d), i++)
        assert_int_equal(v.header.dim[i], (int64_t)clt_json_number(d));
    assert_int_equal(v.header.ndim, i);
    assert_int_equal(v.size[2], v.header.dim[0]);
    assert_int_equal(v.size[0], v.header.dim[2]);
    assert_int_equal(v.channels, i > 3 ? v.header.dim[3] : 1);
    assert_int_equal(v.header.version == 1 ? 348 : 540, (int64_t)number_of(known, "sizeof_hdr"));
    assert_int_equal(v.header.big_endian, strcmp(clt_json_string(clt_json_get(known, "endian")), "big") == 0);
    assert_int_equal(v.header.offset, (int64_t)number_of(known, "vox_offset"));
    assert_true(fabs(v.header.slope - number_of(known, "scl_slope")) <= 0);
    assert_true(fabs(v.header.inter - number_of(known, "scl_inter")) <= 0);

    int64_t count = v.channels * clt_voxels(v.size), at[3] = {0};
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    assert_ok(clt_volume_box(&v, at, v.size, 0, values));
    double sum = 0, least = HUGE_VAL, most = -HUGE_VAL;
    for (int64_t k = 0; k < count; k++) {
        sum += (double)values[k];
        least = fmin(least, (double)values[k]);
        most = fmax(most, (double)values[k]);
    }
    double scale = 1 + fabs(number_of(known, "scaled_max"));
    assert_true(fabs(least - number_of(known, "scaled_min")) <= 1e-6 * scale);
    assert_true(fabs(most - number_of(known, "scaled_max")) <= 1e-6 * scale);
    assert_true(fabs(sum / (double)count - number_of(known, "scaled_mean")) <= 1e-6 * scale);
    compare_voxels(known, values);
    free(values);
    clt_volume_close(&v);

    clt_volume look; /* the header alone gives the same result */
    assert_ok(clt_volume_look(&look, path, 1, "data.path"));
    assert_memory_equal(look.size, v.size, sizeof v.size);
}

TEST(test_known_files)
{
    const char *folder = CLT_TEST_SOURCE_DIR "/../shared/data/nifti";
    clt_json_doc *doc;
    char path[512];
    int files = 0;
    (void)snprintf(path, sizeof path, "%s/known_values.json", folder);
    if (!clt_file_exists(path)) {
        print_message("SKIP: '%s' is not there: no real files to read\n", path);
        skip();
    }
    assert_ok(clt_json_parse_file(path, CLT_EDATA, &doc));
    for (const clt_json *known = clt_json_first(clt_json_root(doc)); known;
         known = clt_json_next(known), files++)
        compare_file(folder, known);
    clt_json_destroy(doc);
    assert_int_equal(files, 6);
}

/* --- written and read --- */

/* Voxel i of a test volume, which all types can hold. */
static double voxel(int64_t i)
{
    return (double)(i * 7 % 101);
}

static void put_element(clt_element element, int64_t i, uint8_t *data)
{
    double v = voxel(i);
    size_t n = clt_element_bytes(element);
    int64_t whole = (int64_t)v;
    float single = (float)v;
    if (element == CLT_EL_F32)
        memcpy(data + (size_t)i * n, &single, n);
    else if (element == CLT_EL_F64)
        memcpy(data + (size_t)i * n, &v, n);
    else
        memcpy(data + (size_t)i * n, &whole, n);
}

static void read_back(const char *path, double slope, double inter, int64_t channels)
{
    clt_volume v;
    int64_t at[3] = {0, 0, 0};
    float values[2 * 3 * 4 * 5];
    assert_ok(clt_volume_open(&v, path, 1, "test"));
    assert_int_equal(v.size[0], 3);
    assert_int_equal(v.size[1], 4);
    assert_int_equal(v.size[2], 5);
    assert_int_equal(v.channels, channels);
    assert_ok(clt_volume_box(&v, at, v.size, 0, values));
    for (int64_t i = 0; i < channels * 60; i++)
        assert_true(fabs((double)values[i] - (voxel(i) * slope + inter)) < 1e-4);
    clt_volume_close(&v);
}

/* A header of version 2, or of the other byte order, to be used as a given geometry. */
static void other_header(bool second, bool big, clt_nifti *out)
{
    uint8_t bytes[CLT_NIFTI2_HEADER] = {0};
    int64_t first = second ? CLT_NIFTI2_HEADER : CLT_NIFTI1_HEADER;
    for (int i = 0; i < 4; i++)
        bytes[big ? 3 - i : i] = (uint8_t)(first >> (8 * i));
    memset(out, 0, sizeof *out);
    out->version = second ? 2 : 1;
    out->big_endian = big;
    memcpy(bytes + (second ? 4 : 344), second ? "n+2\0\r\n\x1a\n" : "n+1\0", second ? 8 : 4);
    memcpy(out->header, bytes, sizeof bytes);
}

TEST(test_every_type)
{
    static const clt_element types[] = {CLT_EL_U8,  CLT_EL_I8,  CLT_EL_U16, CLT_EL_I16, CLT_EL_U32,
                                        CLT_EL_I32, CLT_EL_I64, CLT_EL_U64, CLT_EL_F32, CLT_EL_F64};
    uint8_t data[120 * 8];
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int kind = 0; kind < 8; kind++) {
            clt_nifti like;
            bool packed = kind & 1, big = kind & 2, second = kind & 4;
            int64_t channels = second ? 2 : 1;
            clt_nifti_image image = {.element = types[t],
                                     .ndim = second ? 4 : 3,
                                     .dim = {5, 4, 3, 2},
                                     .data = data,
                                     .slope = packed ? 0.5 : 0,
                                     .inter = packed ? -3 : 0};
            for (int64_t i = 0; i < channels * 60; i++)
                put_element(types[t], i, data);
            other_header(second, big, &like);
            if (big || second)
                image.like = &like;
            const char *path = in_dir(packed ? "v.nii.gz" : "v.nii");
            assert_ok(clt_nifti_write(path, &image));
            read_back(path, packed ? 0.5 : 1, packed ? -3 : 0, channels);
        }
}

/* A box reaches beyond the volume on every side. */
TEST(test_box)
{
    uint8_t data[60];
    clt_volume v;
    float out[7 * 8 * 9];
    const clt_nifti_image image = {.element = CLT_EL_U8, .ndim = 3, .dim = {5, 4, 3}, .data = data};
    const int64_t at[3] = {-2, -2, -2}, box[3] = {7, 8, 9};
    for (int i = 0; i < 60; i++)
        data[i] = (uint8_t)(i + 1);
    assert_ok(clt_nifti_write(in_dir("box.nii"), &image));
    assert_ok(clt_volume_open(&v, in_dir("box.nii"), 1, "test"));
    assert_ok(clt_volume_box(&v, at, box, -7, out));
    for (int64_t z = 0; z < 7; z++)
        for (int64_t y = 0; y < 8; y++)
            for (int64_t x = 0; x < 9; x++) {
                bool inside = z >= 2 && z < 5 && y >= 2 && y < 6 && x >= 2 && x < 7;
                float want = inside ? (float)(((z - 2) * 4 + y - 2) * 5 + x - 2 + 1) : -7.0f;
                assert_true(out[(z * 8 + y) * 9 + x] == want);
            }
    clt_volume_close(&v);
}

TEST(test_mask)
{
    uint8_t data[60], out[60];
    clt_volume v;
    clt_nifti_image image = {.element = CLT_EL_U8, .ndim = 3, .dim = {5, 4, 3}, .data = data};
    for (int i = 0; i < 60; i++)
        data[i] = (uint8_t)(i % 4);
    assert_ok(clt_nifti_write(in_dir("m.nii.gz"), &image));
    assert_ok(clt_volume_open(&v, in_dir("m.nii.gz"), 1, "test"));
    assert_ok(clt_volume_mask(&v, 4, NULL, out));
    assert_memory_equal(data, out, 60);
    assert_int_equal(clt_volume_mask(&v, 3, NULL, out), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "voxel 0,0,3 (depth, height, width) is 3, a class beyond"));
    assert_non_null(strstr(clt_error_text(), "raise data.mask_classes"));
    clt_volume_close(&v);
    image.slope = 100; /* 256 classes are the maximum, so the message advises no more */
    assert_ok(clt_nifti_write(in_dir("m.nii.gz"), &image));
    assert_ok(clt_volume_open(&v, in_dir("m.nii.gz"), 1, "test"));
    assert_int_equal(clt_volume_mask(&v, 256, NULL, out), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "is 300, a class beyond the last one, 255"));
    assert_null(strstr(clt_error_text(), "data.mask_classes"));
    clt_volume_close(&v);
    image.slope = 0.5; /* the same numbers, halved, are not class numbers */
    assert_ok(clt_nifti_write(in_dir("half.nii"), &image));
    assert_ok(clt_volume_open(&v, in_dir("half.nii"), 1, "test"));
    assert_int_equal(clt_volume_mask(&v, 4, NULL, out), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "class numbers: whole"));
    clt_volume_close(&v);
}

/* Values that are known from torch.nn.functional.interpolate. */
TEST(test_resize)
{
    const int64_t from[3] = {1, 1, 4}, to[3] = {1, 1, 2}, up[3] = {1, 1, 8};
    const float in[4] = {0, 1, 2, 3};
    /* interpolate(align_corners=False) of 0 1 2 3 to 8 */
    const float want[8] = {0, 0.25f, 0.75f, 1.25f, 1.75f, 2.25f, 2.75f, 3};
    const uint8_t classes[4] = {0, 1, 2, 3};
    uint8_t near[8];
    float out[8];
    clt_volume_resize(in, 1, from, up, out);
    for (int i = 0; i < 8; i++)
        assert_true(fabsf(out[i] - want[i]) < 1e-6f);
    clt_volume_resize(in, 1, from, to, out);
    assert_true(fabsf(out[0] - 0.5f) < 1e-6f && fabsf(out[1] - 2.5f) < 1e-6f);
    clt_volume_resize_mask(classes, from, up, near);
    for (int i = 0; i < 8; i++)
        assert_int_equal(near[i], i / 2);
    /* every pair of sizes, in integer arithmetic: also where a centre lies exactly between two voxels */
    for (int64_t a = 1; a <= 64; a++)
        for (int64_t b = 1; b <= 64; b++) {
            const int64_t few[3] = {1, 1, a}, many[3] = {1, 1, b};
            uint8_t ramp[64], got[64];
            for (int64_t i = 0; i < a; i++)
                ramp[i] = (uint8_t)i;
            clt_volume_resize_mask(ramp, few, many, got);
            for (int64_t i = 0; i < b; i++)
                assert_int_equal(got[i], (2 * i + 1) * a / (2 * b));
        }
}

/* --- false headers --- */

static uint8_t good[352 + 60 * 2];

static void make_good(void)
{
    int16_t data[60];
    CLT_FREED char *bytes = NULL;
    size_t size;
    const clt_nifti_image image = {.element = CLT_EL_I16, .ndim = 3, .dim = {5, 4, 3}, .data = data};
    for (int i = 0; i < 60; i++)
        data[i] = (int16_t)i;
    assert_ok(clt_nifti_write(in_dir("good.nii"), &image));
    assert_ok(clt_file_read(in_dir("good.nii"), false, 0, CLT_EDATA, &bytes, &size));
    assert_int_equal(size, sizeof good);
    memcpy(good, bytes, size);
}

/* Puts bytes into a copy of the good file and opens it. */
static clt_status open_changed(size_t at, const void *bytes, size_t n, size_t size)
{
    uint8_t copy[sizeof good];
    clt_volume v;
    memcpy(copy, good, sizeof copy);
    memcpy(copy + at, bytes, n);
    put_file("bad.nii", copy, size);
    clt_status status = clt_volume_open(&v, in_dir("bad.nii"), 1, "test");
    if (status == CLT_OK)
        status = clt_volume_check(&v);
    clt_volume_close(&v);
    return status;
}

static void refuse(size_t at, const void *bytes, size_t n, const char *word)
{
    assert_int_equal(open_changed(at, bytes, n, sizeof good), CLT_EDATA);
    if (!strstr(clt_error_text(), word))
        fail_msg("'%s' does not say '%s'", clt_error_text(), word);
}

TEST(test_lies)
{
    const float nan = NAN, inf = INFINITY, zero = 0, far = 1e30f, odd = 352.5f;
    make_good();
    assert_ok(open_changed(0, good, 1, sizeof good));
    refuse(40, "\x00\x00", 2, "0 dimensions");
    refuse(40, "\x08\x00", 2, "8 dimensions");
    refuse(42, "\xff\xff", 2, "dimension 1 of 3 in the header is -1");
    refuse(44, "\x00\x00", 2, "dimension 2 of 3 in the header is 0");
    refuse(42, "\xe8\x03\xe8\x03\xe8\x03", 6, "cut off");    /* 1000 voxels along each axis */
    refuse(42, "\xff\x7f\xff\x7f\xff\x7f", 6, "2147483647"); /* 32767 */
    refuse(40, "\x07\x00\xff\x7f\xff\x7f\xff\x7f\xff\x7f\xff\x7f\xff\x7f\xff\x7f", 16, "more voxels than");
    refuse(70, "\x20\x00", 2, "complex numbers");
    refuse(70, "\x80\x00", 2, "colours (RGB24)");
    refuse(70, "\x03\x00", 2, "datatype 3 in the header is unknown");
    refuse(72, "\x20\x00", 2, "has 16 bits, but the header declares 32");
    refuse(108, &nan, 4, "vox_offset");
    refuse(108, &far, 4, "vox_offset");
    refuse(108, &odd, 4, "vox_offset");
    refuse(112, &inf, 4, "scl_slope");
    refuse(116, &inf, 4, "scl_slope");
    refuse(344, "ni1", 4, "the voxels are in another file");
    refuse(344, "\0\0\0", 4, "ANALYZE 7.5");
    refuse(344, "n+2", 4, "another magic");
    refuse(0, "\x5d\x01", 2, "not a NIfTI file");
    assert_ok(open_changed(72, "\x0c\x00", 2, sizeof good)); /* 12 bits in 16 */
    assert_ok(open_changed(112, &nan, 4, sizeof good));      /* no scaling */
    assert_ok(open_changed(112, &zero, 4, sizeof good));
    assert_ok(open_changed(108, &zero, 4, sizeof good)); /* the data follows the header immediately */
    for (size_t size = 0; size < sizeof good; size += size < 360 ? 1 : 13)
        assert_int_equal(open_changed(0, good, 1, size), CLT_EDATA);
}

TEST(test_not_finite)
{
    float data[60] = {0};
    clt_volume v;
    const clt_nifti_image image = {.element = CLT_EL_F32, .ndim = 3, .dim = {5, 4, 3}, .data = data};
    data[33] = NAN;
    assert_ok(clt_nifti_write(in_dir("nan.nii.gz"), &image));
    assert_ok(clt_volume_open(&v, in_dir("nan.nii.gz"), 1, "test"));
    assert_int_equal(clt_volume_check(&v), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "element 33"));
    clt_volume_close(&v);
}

/* A packed file that ends early, is damaged, or unpacks to far more than its header declares. */
TEST(test_packed_lies)
{
    char *bytes;
    size_t size;
    clt_volume v;
    make_good();
    put_gzip("p.nii.gz", good, sizeof good);
    assert_ok(clt_file_read(in_dir("p.nii.gz"), false, 0, CLT_EDATA, &bytes, &size));
    put_file("p.nii.gz", bytes, size - 12);
    assert_int_equal(clt_volume_open(&v, in_dir("p.nii.gz"), 1, "test"), CLT_EDATA);
    clt_volume_close(&v);
    bytes[size / 2] = (char)(bytes[size / 2] ^ 0x55);
    put_file("p.nii.gz", bytes, size);
    assert_int_equal(clt_volume_open(&v, in_dir("p.nii.gz"), 1, "test"), CLT_EDATA);
    clt_volume_close(&v);
    free(bytes);
    uint8_t *bomb = calloc(1, 1 << 20);
    assert_non_null(bomb);
    memcpy(bomb, good, sizeof good);
    put_gzip("bomb.nii.gz", bomb, 1 << 20);
    free(bomb);
    assert_int_equal(clt_volume_open(&v, in_dir("bomb.nii.gz"), 1, "test"), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "more follows the"));
    clt_volume_close(&v);
}

/* Random damage: an error or a volume, never a crash. */
TEST(test_random_damage)
{
    make_good();
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t copy[sizeof good];
        clt_volume v;
        memcpy(copy, good, sizeof copy);
        uint32_t changes = 1 + clt_rng_u32(3, CLT_RNG_VERIFY, 1, round, 0) % 6;
        for (uint32_t k = 0; k < changes; k++)
            copy[clt_rng_u32(3, CLT_RNG_VERIFY, 2, round, k) % 352] =
                (uint8_t)clt_rng_u32(3, CLT_RNG_VERIFY, 3, round, k);
        put_file("damaged.nii", copy, sizeof copy - clt_rng_u32(3, CLT_RNG_VERIFY, 4, round, 0) % 40);
        clt_status status = clt_volume_open(&v, in_dir("damaged.nii"), 1, "test");
        if (status == CLT_OK)
            status = clt_volume_check(&v);
        assert_true(status == CLT_OK || status == CLT_EDATA);
        clt_volume_close(&v);
    }
}

TEST(test_write_refusals)
{
    uint8_t data[8] = {0};
    clt_nifti_image image = {.element = CLT_EL_U8, .ndim = 3, .dim = {2, 2, 2}, .data = data};
    assert_int_equal(clt_nifti_write(in_dir("x.img"), &image), CLT_EUSAGE);
    image.element = CLT_EL_F16;
    assert_int_equal(clt_nifti_write(in_dir("x.nii"), &image), CLT_EUNSUPPORTED);
    image = (clt_nifti_image){.element = CLT_EL_U8, .ndim = 1, .dim = {40000}, .data = data};
    assert_int_equal(clt_nifti_write(in_dir("x.nii"), &image), CLT_EUNSUPPORTED);
}
