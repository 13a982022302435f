/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens files that hold dense arrays, checks their sizes and converts their numbers. All sizes come from
 * files that may be damaged or hostile: before it is used, each is compared with the number of bytes that
 * are there. */
#include "engine/data/array_file.h"

#include <string.h>
#include <stdlib.h>

#include "engine/base/thread.h"
#include "engine/files/file_kind.h"

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} elements[] = {
#define ELEMENT_ROW(id, name, bytes, is_float) {name, bytes, is_float},
    CLT_ELEMENT_MAP(ELEMENT_ROW)
#undef ELEMENT_ROW
};

const char *clt_element_name(clt_element element)
{
    return elements[element].name;
}

size_t clt_element_bytes(clt_element element)
{
    return elements[element].bytes;
}

bool clt_element_is_float(clt_element element)
{
    return elements[element].is_float;
}

static bool starts_with(const clt_array_file *file, const char *text)
{
    size_t length = strlen(text);
    return file->size >= length && memcmp(file->bytes, text, length) == 0;
}

/* Unpacks all of a gzip file. `declared`: limit of the unpacked size (0: unknown). */
static clt_status unpack(clt_array_file *file, uint64_t declared)
{
    size_t size = 0;
    free(file->unpacked);
    file->unpacked = NULL;
    file->bytes = NULL;
    file->partial = false;
    CLT_TRY(clt_file_read_data(file->path, declared, CLT_EDATA, &file->unpacked, &size));
    file->bytes = (const uint8_t *)file->unpacked;
    file->size = size;
    return CLT_OK;
}

/* Unpacks the beginning of a gzip file, which contains the array's header. The rest is unpacked once the
 * header has declared the size. A file whose content is shorter than START_BYTES is unpacked as a whole,
 * with all checks. */
#define MOST_HEADER                                                                                          \
    ((uint64_t)2 << 20) /* bytes at the beginning of a file that hold the header of any format */
#define START_BYTES ((size_t)2 << 20)
static clt_status unpack_start(clt_array_file *file)
{
    size_t got = 0;
    CLT_TRY(clt_alloc(&file->unpacked, START_BYTES, 1, "the beginning of a data file"));
    CLT_TRY(clt_file_read_start(file->path, file->unpacked, START_BYTES, CLT_EDATA, &got));
    if (got < START_BYTES)
        return unpack(file, 0);
    file->bytes = (const uint8_t *)file->unpacked;
    file->size = got;
    file->partial = true;
    return CLT_OK;
}

clt_status clt_array_file_whole(clt_array_file *file)
{
    return file->partial ? unpack(file, 0) : CLT_OK;
}

clt_status clt_array_file_open(clt_array_file *file, clt_arena *arena, const char *path, const char *key)
{
    memset(file, 0, sizeof *file);
    const char *kept = clt_arena_strdup(arena, path);
    return kept ? clt_array_file_open_at_most(file, kept, key, 0) : CLT_ENOMEM;
}

clt_status clt_array_file_open_at_most(clt_array_file *file, const char *path, const char *key, uint64_t most)
{
    memset(file, 0, sizeof *file);
    file->std = file->scale = 1.0;
    file->path = path;
    clt_status status = clt_map_open_parts(path, CLT_EDATA, &file->mapping);
    clt_map_need(&file->mapping, 0, MOST_HEADER);
    if (status == CLT_OK && file->mapping.file)
        status = clt_map_check_one(&file->mapping);
    if (status != CLT_OK)
        return clt_fail_prefix(status, "opening the data file of %s", key);
    file->bytes = file->mapping.data;
    file->size = file->mapping.size;
    if (starts_with(file, "\x1f\x8b")) {
        clt_map_close(&file->mapping);
        status = most ? unpack(file, most) : unpack_start(file);
        if (status != CLT_OK)
            return clt_fail_prefix(status, "opening the data file of %s", key);
    }
    if (file->size == 0)
        CLT_FAIL(CLT_EDATA, "reading '%s' (%s): the file is empty; copy or download it again", path, key);
    return clt_fail_prefix(clt_refuse_pointer(file->bytes, file->size, "the data itself", CLT_EDATA),
                           "reading '%s' (%s)", path, key);
}

void clt_array_file_close(clt_array_file *file)
{
    if (!file)
        return;
    clt_map_close(&file->mapping);
    free(file->unpacked);
    file->unpacked = NULL;
    file->bytes = NULL;
    file->size = 0;
}

static clt_status too_many(const clt_array_file *file)
{
    CLT_FAIL(
        CLT_EDATA,
        "reading '%s': its header declares more numbers than a file can hold; the header is damaged, copy "
        "or download the file again",
        file->path);
}

clt_status clt_array_file_fit(clt_array_file *file, int ndim, const uint64_t *dims)
{
    /* A sample's shape lacks the array's first dimension, and a batch adds one dimension to it. */
    if (ndim < 1 || ndim > CLT_MAX_DIMS)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the array has %d dimensions, 1 to %d are supported (the first one counts "
                 "samples); reshape the data",
                 file->path, ndim, CLT_MAX_DIMS);
    uint64_t elements_of_sample = 1, total = 0, need = 0;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 0)
            CLT_FAIL(
                CLT_EDATA,
                "reading '%s': dimension %d of %d is 0, so there is no data in it; give a file with samples",
                file->path, i + 1, ndim);
        if (dims[i] > INT64_MAX || (i > 0 && !clt_mul_u64(elements_of_sample, dims[i], &elements_of_sample)))
            return too_many(file);
    }
    uint64_t width = clt_element_bytes(file->element);
    if (!clt_mul_u64(elements_of_sample, dims[0], &total) || !clt_mul_u64(total, width, &need) ||
        !clt_add_u64(need, file->header, &need) || need > INT64_MAX)
        return too_many(file);
    if (file->partial)
        CLT_TRY(unpack(file, need));
    if (file->size < need)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off: its header declares %llu samples and so %llu bytes, but "
                 "it ends after %llu bytes; copy or download it again",
                 file->path, (unsigned long long)dims[0], (unsigned long long)need,
                 (unsigned long long)file->size);
    if (file->size > need)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': %llu bytes follow the last sample, from byte %llu on: header and content do not "
            "belong together; copy or download the file again",
            file->path, (unsigned long long)(file->size - need), (unsigned long long)need);
    file->samples = (int64_t)dims[0];
    file->shape = (clt_shape){.ndim = ndim - 1};
    for (int i = 1; i < ndim; i++)
        file->shape.dim[i - 1] = (int64_t)dims[i];
    file->sample_elements = (int64_t)elements_of_sample;
    file->sample_bytes = elements_of_sample * width;
    return CLT_OK;
}

uint64_t clt_array_file_offset(const clt_array_file *file, int64_t sample, int64_t element)
{
    return file->header + (uint64_t)sample * file->sample_bytes +
           (uint64_t)element * clt_element_bytes(file->element);
}

/* --- numbers --- */

static bool must_swap(const clt_array_file *file)
{
    return file->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Loads the bits of one element, in host order, into the low bytes of a word. */
static inline uint64_t load_bits(const uint8_t *src, size_t width, bool swap)
{
    uint16_t b16;
    uint32_t b32;
    uint64_t b64;
    switch (width) {
    case 1:
        return *src;
    case 2:
        memcpy(&b16, src, 2);
        return swap ? __builtin_bswap16(b16) : b16;
    case 4:
        memcpy(&b32, src, 4);
        return swap ? __builtin_bswap32(b32) : b32;
    default:
        memcpy(&b64, src, 8);
        return swap ? __builtin_bswap64(b64) : b64;
    }
}

/* The value of an integer element. A u64 above INT64_MAX becomes INT64_MAX, which no delivered type accepts
 * either. */
static inline int64_t integer_of(uint64_t bits, clt_element element)
{
    switch (element) {
    case CLT_EL_I8:
        return (int8_t)bits;
    case CLT_EL_I16:
        return (int16_t)bits;
    case CLT_EL_I32:
        return (int32_t)bits;
    case CLT_EL_U64:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    default:
        return (int64_t)bits;
    }
}

static inline double real_of(uint64_t bits, clt_element element)
{
    uint32_t low = (uint32_t)bits;
    float single;
    double result;
    switch (element) {
    case CLT_EL_F16:
        return (double)clt_f16_to_f32((uint16_t)bits);
    case CLT_EL_F32:
        memcpy(&single, &low, 4);
        return (double)single;
    case CLT_EL_F64:
        memcpy(&result, &bits, 8);
        return result;
    default:
        return (double)integer_of(bits, element);
    }
}

/* Waits until elements [first, first + count) of a sample can be read. */
static void need_elements(const clt_array_file *file, int64_t sample, int64_t first, int64_t count)
{
    clt_map_need(&file->mapping, clt_array_file_offset(file, sample, first),
                 (uint64_t)count * clt_element_bytes(file->element));
}

static double element_value(const clt_array_file *file, int64_t sample, int64_t element)
{
    const uint8_t *src = file->bytes + clt_array_file_offset(file, sample, element);
    return real_of(load_bits(src, clt_element_bytes(file->element), must_swap(file)), file->element);
}

/* True if all values are finite; written so that compilers vectorise the loop. */
static bool all_finite(const float *values, int64_t count)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, 4);
        bad |= (uint32_t)((bits & 0x7f800000u) == 0x7f800000u);
    }
    return bad == 0;
}

/* Fails, naming the first value that is not finite. values[i] was read from element first + i. */
static clt_status not_finite(const clt_array_file *file, int64_t sample, int64_t first, const float *values)
{
    int64_t at = first;
    while (at + 1 < file->sample_elements && all_finite(values + (at - first), 1))
        at++;
    double value = element_value(file, sample, at);
    bool infinite_in_file = value - value != 0.0;
    CLT_FAIL(CLT_EDATA,
             "reading sample %lld of '%s': element %lld (byte %llu) is %g, %s; remove or repair the sample",
             (long long)sample, file->path, (long long)at,
             (unsigned long long)clt_array_file_offset(file, sample, at), value,
             infinite_in_file ? "which is not a finite number"
                              : "which does not fit a 32-bit float after conversion and scaling");
}

static clt_status read_float(const clt_array_file *file, int64_t sample, int64_t first, int64_t count,
                             float *out)
{
    const uint8_t *src = file->bytes + clt_array_file_offset(file, sample, first);
    need_elements(file, sample, first, count);
    bool swap = must_swap(file);
    size_t width = clt_element_bytes(file->element);
    const double scale = file->scale, mean = file->mean, std = file->std;
    if (file->element == CLT_EL_F32 && !swap) {
        memcpy(out, src, (size_t)count * width);
        for (int64_t i = 0; file->normalise && i < count; i++)
            out[i] = (float)(((double)out[i] * scale - mean) / std);
    } else if (file->normalise) { /* rounded to f32 only once, at the end */
        for (int64_t i = 0; i < count; i++) {
            double value = real_of(load_bits(src + (size_t)i * width, width, swap), file->element);
            out[i] = (float)((value * scale - mean) / std);
        }
    } else {
        for (int64_t i = 0; i < count; i++)
            out[i] = (float)real_of(load_bits(src + (size_t)i * width, width, swap), file->element);
    }
    clt_map_used(&file->mapping);
    if (!all_finite(out, count))
        return not_finite(file, sample, first, out);
    return CLT_OK;
}

clt_status clt_array_file_read_part(const clt_array_file *file, int64_t sample, int64_t first, int64_t count,
                                    float *dst)
{
    if (file->dtype != CLT_F32 || sample < 0 || sample >= file->samples || first < 0 || count < 0 ||
        count > file->sample_elements - first)
        CLT_FAIL(CLT_EINTERNAL, "reading %lld elements from number %lld on of sample %lld of '%s'",
                 (long long)count, (long long)first, (long long)sample, file->path);
    return read_float(file, sample, first, count, dst);
}

clt_status clt_array_file_read(const clt_array_file *file, int64_t sample, void *dst)
{
    if (sample < 0 || sample >= file->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading sample %lld of '%s': it has %lld samples", (long long)sample,
                 file->path, (long long)file->samples);
    if (file->dtype == CLT_F32)
        return read_float(file, sample, 0, file->sample_elements, dst);
    const uint8_t *src = file->bytes + clt_array_file_offset(file, sample, 0);
    need_elements(file, sample, 0, file->sample_elements);
    size_t width = clt_element_bytes(file->element);
    bool swap = must_swap(file);
    bool as_is = width == clt_dtype_bytes(file->dtype) && (!swap || width == 1);
    if (as_is)
        memcpy(dst, src, file->sample_bytes);
    /* The conversions are safe: opening the source has checked all values against the delivered type. */
    for (int64_t i = 0; !as_is && i < file->sample_elements; i++) {
        int64_t value = integer_of(load_bits(src + (size_t)i * width, width, swap), file->element);
        if (file->dtype == CLT_U16) {
            uint16_t narrow = (uint16_t)value;
            memcpy((char *)dst + 2 * i, &narrow, 2);
        } else {
            int32_t narrow = (int32_t)value;
            memcpy((char *)dst + 4 * i, &narrow, 4);
        }
    }
    clt_map_used(&file->mapping);
    return CLT_OK;
}

clt_status clt_array_file_numbers(const clt_array_file *file, int64_t sample, double *out)
{
    need_elements(file, sample, 0, file->sample_elements);
    for (int64_t i = 0; i < file->sample_elements; i++) {
        out[i] = element_value(file, sample, i);
        if (out[i] - out[i] != 0.0)
            CLT_FAIL(CLT_EDATA,
                     "reading sample %lld of '%s': element %lld (byte %llu) is %g, which is not a finite "
                     "number; remove or repair the sample",
                     (long long)sample, file->path, (long long)i,
                     (unsigned long long)clt_array_file_offset(file, sample, i), out[i]);
    }
    clt_map_used(&file->mapping);
    return CLT_OK;
}

int64_t clt_array_file_count_valid(const clt_array_file *file, int64_t sample, int64_t ignore)
{
    int64_t count = 0;
    need_elements(file, sample, 0, file->sample_elements);
    for (int64_t i = 0; i < file->sample_elements; i++)
        count += element_value(file, sample, i) != (double)ignore;
    clt_map_used(&file->mapping);
    return count;
}

#define RANGE_AT_ONCE 65536 /* elements to wait for at a time */

clt_status clt_array_file_range(const clt_array_file *file, int64_t *min, int64_t *max)
{
    const uint8_t *src = file->bytes + file->header;
    size_t width = clt_element_bytes(file->element);
    bool swap = must_swap(file);
    int64_t count = file->samples * file->sample_elements, least = INT64_MAX, most = INT64_MIN;
    int64_t lowest = file->dtype == CLT_I32 ? INT32_MIN : 0;
    int64_t highest = file->dtype == CLT_I32 ? INT32_MAX : file->dtype == CLT_U16 ? UINT16_MAX : UINT8_MAX;
    for (int64_t i = 0; i < count; i++) {
        if (i % RANGE_AT_ONCE == 0) {
            clt_map_unpin();
            clt_map_need(&file->mapping, file->header + (uint64_t)i * width, RANGE_AT_ONCE * width);
        }
        int64_t value = integer_of(load_bits(src + (size_t)i * width, width, swap), file->element);
        if (value < lowest || value > highest)
            CLT_FAIL(CLT_EDATA,
                     "reading sample %lld of '%s': element %lld (byte %llu) is %lld, outside the range of %s "
                     "(%lld to %lld), which is the widest index type; repair the file",
                     (long long)(i / file->sample_elements), file->path,
                     (long long)(i % file->sample_elements),
                     (unsigned long long)(file->header + (uint64_t)i * width), (long long)value,
                     clt_dtype_name(file->dtype), (long long)lowest, (long long)highest);
        if (value < least)
            least = value;
        if (value > most)
            most = value;
    }
    *min = least;
    *max = most;
    return clt_map_check_one(&file->mapping);
}

void clt_array_file_want(const clt_array_file *file, int64_t sample)
{
    clt_map_want(&file->mapping, clt_array_file_offset(file, sample, 0), file->sample_bytes);
}

void clt_array_file_fingerprint(const clt_array_file *file, clt_hash64_state *state)
{
    if (file->mapping.file)
        clt_fingerprint_add_mapped(state, &file->mapping);
    else
        clt_fingerprint_add(state, file->bytes, file->size);
}
