/* SPDX-License-Identifier: Apache-2.0
 *
 * The .npy format of NumPy, versions 1 to 3: magic, version, header length, a Python dictionary as text,
 * then the array. The parser of the dictionary is strict: it knows three keys and evaluates nothing. This
 * file knows only the header. */
#include "engine/data/arrays/source_npy.h"

#include "engine/data/arrays/source_pair.h"

#include <stdio.h>
#include <string.h>

#define NPY_MAGIC_BYTES 6
#define NPY_MAX_HEADER (1u << 20)
#define NPY_MAX_DIMS 32
#define NPY_DESCR 32

/* State of the parser of the header's dictionary. */
typedef struct npy_scan {
    const char *path;
    const char *text, *at, *end;
    uint64_t base; /* offset of the dictionary's text in the file, for messages */
    bool has_descr, has_order, has_shape;
    char descr[NPY_DESCR];
    bool fortran_order;
    int ndim;
    uint64_t dims[NPY_MAX_DIMS];
} npy_scan;

static clt_status bad_header(const npy_scan *scan, const char *why)
{
    CLT_FAIL(
        CLT_EDATA,
        "reading '%s': the .npy header is damaged at byte %llu: %s; write the file again with numpy.save",
        scan->path, (unsigned long long)(scan->base + (uint64_t)(scan->at - scan->text)), why);
}

static void skip_space(npy_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r'))
        scan->at++;
}

static bool accept(npy_scan *scan, char c)
{
    skip_space(scan);
    if (scan->at >= scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool accept_word(npy_scan *scan, const char *word)
{
    size_t length = strlen(word);
    skip_space(scan);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

static clt_status scan_string(npy_scan *scan, char *out, size_t room)
{
    skip_space(scan);
    if (scan->at >= scan->end || (*scan->at != '\'' && *scan->at != '"'))
        return bad_header(scan, "a quoted word is expected");
    char quote = *scan->at++;
    size_t used = 0;
    while (scan->at < scan->end && *scan->at != quote) {
        unsigned char c = (unsigned char)*scan->at;
        if (c < 32 || c > 126 || c == '\\')
            return bad_header(scan, "a word holds a character that no .npy header needs");
        if (used + 1 >= room)
            return bad_header(scan, "a word is longer than any known one");
        out[used++] = *scan->at++;
    }
    if (scan->at >= scan->end)
        return bad_header(scan, "a quoted word has no end");
    scan->at++;
    out[used] = '\0';
    return CLT_OK;
}

static clt_status scan_number(npy_scan *scan, uint64_t *out)
{
    uint64_t value = 0;
    skip_space(scan);
    if (scan->at >= scan->end || *scan->at < '0' || *scan->at > '9')
        return bad_header(scan, "a size (digits only) is expected");
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++)
        if (!clt_mul_u64(value, 10, &value) || !clt_add_u64(value, (uint64_t)(*scan->at - '0'), &value))
            return bad_header(scan, "a size does not fit 64 bits");
    if (scan->at < scan->end && *scan->at == 'L') /* the L of a long integer, as Python 2 writes it */
        scan->at++;
    *out = value;
    return CLT_OK;
}

static clt_status scan_shape(npy_scan *scan)
{
    if (!accept(scan, '('))
        return bad_header(scan, "the shape must be a tuple such as (60000, 28, 28)");
    bool comma = true;
    while (!accept(scan, ')')) {
        if (!comma)
            return bad_header(scan, "sizes are separated by commas");
        if (scan->ndim == NPY_MAX_DIMS)
            return bad_header(scan, "more than 32 dimensions");
        CLT_TRY(scan_number(scan, &scan->dims[scan->ndim]));
        scan->ndim++;
        comma = accept(scan, ',');
    }
    if (scan->ndim == 1 && !comma)
        return bad_header(scan, "a tuple of one size has a comma, as in (3,)");
    return CLT_OK;
}

static clt_status scan_descr(npy_scan *scan)
{
    skip_space(scan);
    if (scan->at < scan->end && *scan->at == '[')
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it holds records with named fields (a structured dtype), not a plain array; "
                 "save each field in a separate file",
                 scan->path);
    return scan_string(scan, scan->descr, sizeof scan->descr);
}

static clt_status scan_entry(npy_scan *scan)
{
    char key[NPY_DESCR];
    CLT_TRY(scan_string(scan, key, sizeof key));
    bool *seen = strcmp(key, "descr") == 0           ? &scan->has_descr
                 : strcmp(key, "fortran_order") == 0 ? &scan->has_order
                 : strcmp(key, "shape") == 0         ? &scan->has_shape
                                                     : NULL;
    if (!seen)
        return bad_header(scan, "its keys are descr, fortran_order and shape, and there is another one");
    if (*seen)
        return bad_header(scan, "a key appears twice");
    *seen = true;
    if (!accept(scan, ':'))
        return bad_header(scan, "':' is expected after a key");
    if (seen == &scan->has_descr)
        return scan_descr(scan);
    if (seen == &scan->has_shape)
        return scan_shape(scan);
    scan->fortran_order = accept_word(scan, "True");
    if (!scan->fortran_order && !accept_word(scan, "False"))
        return bad_header(scan, "fortran_order is True or False");
    return CLT_OK;
}

static clt_status scan_header(npy_scan *scan)
{
    if (!accept(scan, '{'))
        return bad_header(scan, "'{' is expected");
    bool comma = true;
    while (!accept(scan, '}')) {
        if (!comma)
            return bad_header(scan, "',' or '}' is expected");
        CLT_TRY(scan_entry(scan));
        comma = accept(scan, ',');
    }
    skip_space(scan);
    if (scan->at != scan->end)
        return bad_header(scan, "text follows the dictionary");
    if (!scan->has_descr || !scan->has_order || !scan->has_shape)
        return bad_header(scan, !scan->has_descr   ? "the key 'descr' is missing"
                                : !scan->has_order ? "the key 'fortran_order' is missing"
                                                   : "the key 'shape' is missing");
    return CLT_OK;
}

/* Number formats, found by the letters that follow the byte order in the dtype string ("descr"). */
static const struct {
    const char *letters;
    clt_element element;
    clt_dtype dtype;
} known_formats[] = {
    {"b1", CLT_EL_U8, CLT_U8},   {"u1", CLT_EL_U8, CLT_U8},   {"i1", CLT_EL_I8, CLT_I32},
    {"u2", CLT_EL_U16, CLT_U16}, {"i2", CLT_EL_I16, CLT_I32}, {"u4", CLT_EL_U32, CLT_I32},
    {"i4", CLT_EL_I32, CLT_I32}, {"u8", CLT_EL_U64, CLT_I32}, {"i8", CLT_EL_I64, CLT_I32},
    {"f2", CLT_EL_F16, CLT_F32}, {"f4", CLT_EL_F32, CLT_F32}, {"f8", CLT_EL_F64, CLT_F32},
};

static clt_status take_descr(const npy_scan *scan, clt_array_file *file)
{
    const char *descr = scan->descr;
    char order = descr[0];
    const char *letters = descr + (order == '<' || order == '>' || order == '|' || order == '=');
    if (letters[0] == 'O')
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it holds Python objects (dtype object), which only unpickling could read and "
                 "which may run any code: refused; convert it with numpy.asarray(x, dtype='float32') and "
                 "save it again",
                 scan->path);
    for (size_t i = 0; i < sizeof known_formats / sizeof known_formats[0]; i++) {
        if (strcmp(letters, known_formats[i].letters) != 0)
            continue;
        file->element = known_formats[i].element;
        file->dtype = known_formats[i].dtype;
        file->flags = strcmp(letters, "b1") == 0;
        if (clt_element_bytes(file->element) > 1 && order != '<' && order != '>' && order != '=')
            CLT_FAIL(
                CLT_EDATA,
                "reading '%s': dtype '%s' does not say its byte order; write the file again with numpy.save",
                scan->path, descr);
        /* '=' means the byte order of the machine that wrote the file; it is taken as little-endian. */
        file->big_endian = order == '>';
        return CLT_OK;
    }
    CLT_FAIL(CLT_EDATA,
             "reading '%s': dtype '%s' is not supported (f2 f4 f8, u1 u2 u4 u8, i1 i2 i4 i8 and b1 are); "
             "convert it with x.astype('float32')",
             scan->path, descr);
}

/* Finds the text of the header: [*start, file->header). */
static clt_status find_header(clt_array_file *file, uint64_t *start)
{
    const uint8_t *b = file->bytes;
    uint64_t magic = file->size < NPY_MAGIC_BYTES ? file->size : NPY_MAGIC_BYTES;
    if (memcmp(b, "\x93NUMPY", magic) != 0) {
        char hint[64] = "";
        if (b[0] == 'P' && file->size > 1 && b[1] == 'K')
            (void)snprintf(hint, sizeof hint, " (it is a zip archive, perhaps .npz: unpack it first)");
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': wrong magic: a .npy file begins with 93 'NUMPY'%s; is it the right file and "
                 "data.type?",
                 file->path, hint);
    }
    uint64_t fixed = file->size > NPY_MAGIC_BYTES && b[6] >= 2 ? 12 : 10;
    if (file->size < fixed)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off inside the .npy header, after %llu bytes; copy or "
                 "download it again",
                 file->path, (unsigned long long)file->size);
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': .npy version %u.%u is not known, 1.0, 2.0 and 3.0 are; write it again with "
                 "numpy.save",
                 file->path, b[6], b[7]);
    uint64_t length = b[8] | (uint64_t)b[9] << 8;
    if (fixed == 12)
        length |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
    if (length > NPY_MAX_HEADER)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': a .npy header of %llu bytes is longer than any real one; the file is damaged",
                 file->path, (unsigned long long)length);
    *start = fixed;
    file->header = fixed + length;
    if (file->size < file->header)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off inside the .npy header: %llu bytes are declared, the "
                 "file ends after %llu; copy or download it again",
                 file->path, (unsigned long long)file->header, (unsigned long long)file->size);
    return CLT_OK;
}

clt_status clt_npy_read_header(clt_array_file *file, const clt_config *config, bool is_target)
{
    (void)config;
    (void)is_target;
    uint64_t start = 0;
    CLT_TRY(find_header(file, &start));
    const char *text = (const char *)file->bytes + start;
    npy_scan scan = {.path = file->path,
                     .text = text,
                     .at = text,
                     .end = (const char *)file->bytes + file->header,
                     .base = start};
    CLT_TRY(scan_header(&scan));
    CLT_TRY(take_descr(&scan, file));
    /* With one dimension, row-major and column-major order are the same. */
    if (scan.fortran_order && scan.ndim > 1)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the array is stored in Fortran order (first dimension fastest), so a sample "
                 "is not in one piece; save numpy.ascontiguousarray(x) instead",
                 file->path);
    if (scan.ndim == 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it holds a single number, not an array of samples; is it the right file?",
                 file->path);
    return clt_array_file_fit(file, scan.ndim, scan.dims);
}

static clt_status npy_open(clt_source *source, const clt_config *config, clt_split split)
{
    return clt_pair_open(source, config, split, clt_npy_read_header);
}

static clt_status npy_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    (void)tokenizer;
    return clt_pair_check_file(path, clt_npy_read_header, out);
}

static const clt_config_key npy_keys[] = {
    CLT_PAIR_KEYS,
    CLT_KEY_END,
};
static const char *const npy_required[] = {"data.path", NULL};

const clt_config_part clt_format_npy = {
    .name = "npy",
    .help = "NumPy arrays (.npy), the first dimension counts samples: inputs in data.path, targets in "
            "data.targets",
    .keys = npy_keys,
    .required = npy_required,
    .check = clt_pair_check_rules,
};

static clt_likeness npy_likeness(const unsigned char *first, size_t n)
{
    return n >= 6 && memcmp(first, "\x93NUMPY", 6) == 0 ? CLT_SURE : CLT_UNLIKE;
}

static const char *const npy_ends[] = {".npy", NULL};

const clt_source_type clt_source_npy = {
    .format = &clt_format_npy,
    .open = npy_open,
    .close = clt_pair_close,
    .read = clt_pair_read,
    .numbers = clt_pair_numbers,
    .count_valid = clt_pair_count_valid,
    .locate = clt_pair_locate,
    .want = clt_pair_want,
    .fingerprint = clt_pair_fingerprint,
    .eval_hint = CLT_PAIR_EVAL_HINT,
    .suffix = ".npy",
    .check_file = npy_check_file,
    .input_ends = npy_ends,
    .input_likeness = npy_likeness,
};
