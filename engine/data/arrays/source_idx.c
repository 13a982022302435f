/* SPDX-License-Identifier: Apache-2.0
 *
 * The idx format, in which MNIST and similar data sets are published. Its big-endian header has 2 zero
 * bytes, a byte for the type, a byte for the number of dimensions, then a 32-bit size for each dimension.
 * Files may be packed with gzip. This file knows only the header. */
#include "engine/data/arrays/source_pair.h"
#include "engine/data/pixels/augment.h"
#include "engine/files/fileio.h"

#define IDX_MAGIC_BYTES 4

static uint32_t big_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool element_of_type(uint8_t type, clt_element *element)
{
    switch (type) {
    case 0x08:
        *element = CLT_EL_U8;
        return true;
    case 0x09:
        *element = CLT_EL_I8;
        return true;
    case 0x0B:
        *element = CLT_EL_I16;
        return true;
    case 0x0C:
        *element = CLT_EL_I32;
        return true;
    case 0x0D:
        *element = CLT_EL_F32;
        return true;
    case 0x0E:
        *element = CLT_EL_F64;
        return true;
    default:
        return false;
    }
}

static clt_status check_magic(clt_array_file *file)
{
    const uint8_t *b = file->bytes;
    if (file->size < IDX_MAGIC_BYTES)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off inside the idx header: it has %llu bytes, the magic "
                 "number needs 4; copy or download it again",
                 file->path, (unsigned long long)file->size);
    if (b[0] != 0 || b[1] != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': wrong magic %02x %02x %02x %02x: an idx file begins with 00 00 (images 00 00 "
                 "08 03, labels 00 00 08 01); is it the right file and data.type?",
                 file->path, b[0], b[1], b[2], b[3]);
    if (!element_of_type(b[2], &file->element))
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': wrong magic %02x %02x %02x %02x: 0x%02x at byte 2 is not an idx number type (08 "
            "u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64); is it the right file?",
            file->path, b[0], b[1], b[2], b[3], b[2]);
    if (b[3] < 1 || b[3] > CLT_MAX_DIMS)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': wrong magic %02x %02x %02x %02x: %u dimensions at byte 3, 1 to %d are "
                 "supported; is it the right file?",
                 file->path, b[0], b[1], b[2], b[3], b[3], CLT_MAX_DIMS);
    return CLT_OK;
}

static clt_status read_header(clt_array_file *file, const clt_config *config, bool is_target)
{
    (void)config;
    CLT_TRY(check_magic(file));
    int ndim = file->bytes[3];
    file->header = IDX_MAGIC_BYTES + 4 * (uint64_t)ndim;
    file->big_endian = true;
    if (file->size < file->header)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off inside the idx header: %d dimensions need %llu bytes, it "
                 "has %llu; copy or download it again",
                 file->path, ndim, (unsigned long long)file->header, (unsigned long long)file->size);
    if (!is_target && ndim == 1)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': inputs need at least 2 dimensions, samples and their elements, and it has "
                 "one, as files of labels do; are the input and target files swapped?",
                 file->path);
    uint64_t dims[CLT_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        dims[i] = big_u32(file->bytes + IDX_MAGIC_BYTES + 4 * i);
    /* Inputs of type u8 are uploaded unchanged, other inputs become f32. Targets stay integers, since they
     * may be indices. */
    if (file->element == CLT_EL_U8)
        file->dtype = CLT_U8;
    else
        file->dtype = is_target && !clt_element_is_float(file->element) ? CLT_I32 : CLT_F32;
    return clt_array_file_fit(file, ndim, dims);
}

static clt_status idx_open(clt_source *source, const clt_config *config, clt_split split)
{
    CLT_TRY(clt_pair_open(source, config, split, read_header));
    return clt_pair_augment(source, config, split);
}

static clt_status idx_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    (void)tokenizer;
    return clt_pair_check_file(path, read_header, out);
}

static const clt_config_key idx_keys[] = {
    CLT_PAIR_KEYS,
    CLT_CROP_KEYS,
    CLT_KEY_END,
};
static const char *const idx_required[] = {"data.path", NULL};

const clt_config_part clt_format_idx = {
    .name = "idx",
    .help = "idx files as MNIST has them, plain or .gz: inputs in data.path, labels in data.targets",
    .keys = idx_keys,
    .required = idx_required,
    .check = clt_pair_check_rules,
};

static clt_likeness idx_likeness(const unsigned char *b, size_t n)
{
    if (clt_is_gzip(b, n))
        return CLT_SURE;
    bool header = n >= 4 && b[0] == 0 && b[1] == 0 && b[2] >= 8 && b[2] <= 14 && b[3] >= 1 && b[3] <= 6;
    return header ? CLT_LIKE : CLT_UNLIKE;
}

static const char *const idx_ends[] = {".idx", "-ubyte", NULL};

const clt_source_type clt_source_idx = {
    .format = &clt_format_idx,
    .open = idx_open,
    .close = clt_pair_close,
    .read = clt_pair_read,
    .numbers = clt_pair_numbers,
    .count_valid = clt_pair_count_valid,
    .locate = clt_pair_locate,
    .want = clt_pair_want,
    .fingerprint = clt_pair_fingerprint,
    .eval_hint = CLT_PAIR_EVAL_HINT,
    .input_ends = idx_ends,
    .input_likeness = idx_likeness,
    .check_file = idx_check_file, /* a file with any name whose ending belongs to no other format */
};
