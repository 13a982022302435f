/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw files: little-endian f32 numbers without any header, inputs of data.shape and targets of
 * data.target_shape. The size of the file says how many samples there are. */
#include "engine/data/arrays/source_pair.h"

static clt_status read_header(clt_array_file *file, const clt_config *config, bool is_target)
{
    const char *key = is_target ? "data.target_shape" : "data.shape";
    clt_shape shape;
    CLT_TRY(clt_source_config_shape(config, key, &shape));
    if (!is_target && shape.ndim == 0)
        CLT_FAIL(CLT_ECONFIG,
                 "reading '%s': a raw file does not say what shape its samples have; set data.shape, for "
                 "example [784]",
                 file->path);
    CLT_TRY(clt_array_file_whole(file));
    uint64_t sample_bytes = (uint64_t)clt_shape_elements(&shape) * 4;
    char text[CLT_SHAPE_TEXT];
    if (file->size % sample_bytes != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': %llu bytes are not a whole number of f32 samples of shape %s (%llu bytes "
                 "each, %llu bytes are left over); the file is cut off or %s is wrong",
                 file->path, (unsigned long long)file->size, clt_shape_text(&shape, text, sizeof text),
                 (unsigned long long)sample_bytes, (unsigned long long)(file->size % sample_bytes), key);
    uint64_t dims[CLT_MAX_DIMS] = {file->size / sample_bytes};
    for (int i = 0; i < shape.ndim; i++)
        dims[i + 1] = (uint64_t)shape.dim[i];
    file->element = CLT_EL_F32;
    file->dtype = CLT_F32;
    return clt_array_file_fit(file, shape.ndim + 1, dims);
}

static clt_status raw_open(clt_source *source, const clt_config *config, clt_split split)
{
    return clt_pair_open(source, config, split, read_header);
}

static void raw_check_rules(clt_config_rules *rules)
{
    clt_pair_check_rules(rules);
    clt_source_check_shape_rules(rules);
}

static const clt_config_key raw_keys[] = {
    CLT_PAIR_KEYS,
    CLT_KEY_INTS("data.shape", 1, 2147483647, "[]", "shape of one input sample, such as [28, 28]"),
    CLT_KEY_INTS("data.target_shape", 1, 2147483647, "[]", "shape of one target; [] is a single number"),
    CLT_KEY_END,
};
static const char *const raw_required[] = {"data.path", "data.shape", NULL};

const clt_config_part clt_format_raw = {
    .name = "raw",
    .help = "little-endian f32 without a header: inputs of data.shape in data.path, targets of "
            "data.target_shape in data.targets",
    .keys = raw_keys,
    .required = raw_required,
    .check = raw_check_rules,
};

static const char *const raw_ends[] = {".raw", ".bin", ".f32", NULL};

const clt_source_type clt_source_raw = {
    .format = &clt_format_raw,
    .open = raw_open,
    .close = clt_pair_close,
    .read = clt_pair_read,
    .numbers = clt_pair_numbers,
    .count_valid = clt_pair_count_valid,
    .locate = clt_pair_locate,
    .want = clt_pair_want,
    .fingerprint = clt_pair_fingerprint,
    .eval_hint = CLT_PAIR_EVAL_HINT,
    .input_ends = raw_ends,
    .input_shapeless = true,
};
