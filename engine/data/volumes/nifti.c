/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and checks headers of NIfTI files, and writes whole files. The offsets of fields are from nifti1.h
 * and nifti2.h of the NIfTI data format working group. */
#include "engine/base/text.h"
#include "engine/data/volumes/nifti.h"
#include "engine/files/file_kind.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first byte at which voxels may begin in a single file: the header is followed by 4 bytes that say
 * whether there are extensions. */
#define SINGLE_FILE_1 352
#define SINGLE_FILE_2 544

/* Offsets of the fields of one version of the header, in bytes; `earliest`: the first offset of voxels. */
typedef struct field_places {
    int header, dim, datatype, bitpix, pixdim, vox_offset, slope, inter, magic;
    int earliest;
} field_places;

static const field_places places_1 = {.header = CLT_NIFTI1_HEADER,
                                      .dim = 40,
                                      .datatype = 70,
                                      .bitpix = 72,
                                      .pixdim = 76,
                                      .vox_offset = 108,
                                      .slope = 112,
                                      .inter = 116,
                                      .magic = 344,
                                      .earliest = SINGLE_FILE_1};
static const field_places places_2 = {.header = CLT_NIFTI2_HEADER,
                                      .dim = 16,
                                      .datatype = 12,
                                      .bitpix = 14,
                                      .pixdim = 104,
                                      .vox_offset = 168,
                                      .slope = 176,
                                      .inter = 184,
                                      .magic = 4,
                                      .earliest = SINGLE_FILE_2};

static const struct {
    int code;
    clt_element element;
} known_types[] = {
    {2, CLT_EL_U8},   {4, CLT_EL_I16},   {8, CLT_EL_I32},   {16, CLT_EL_F32},   {64, CLT_EL_F64},
    {256, CLT_EL_I8}, {512, CLT_EL_U16}, {768, CLT_EL_U32}, {1024, CLT_EL_I64}, {1280, CLT_EL_U64},
};
static const struct {
    int code;
    const char *name;
} other_types[] = {
    {1, "single bits"},        {32, "complex numbers (complex64)"},    {128, "colours (RGB24)"},
    {1536, "128-bit floats"},  {1792, "complex numbers (complex128)"}, {2048, "complex numbers (complex256)"},
    {2304, "colours (RGBA32)"}};

/* --- numbers of a header --- */

static uint64_t get_bits(const uint8_t *at, int bytes, bool big_endian)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[big_endian ? bytes - 1 - i : i] << (8 * i);
    return value;
}

static void put_bits(uint8_t *at, int bytes, bool big_endian, uint64_t value)
{
    for (int i = 0; i < bytes; i++)
        at[big_endian ? bytes - 1 - i : i] = (uint8_t)(value >> (8 * i));
}

static int64_t get_int(const uint8_t *at, int bytes, bool big_endian)
{
    uint64_t bits = get_bits(at, bytes, big_endian);
    return bytes == 2 ? (int16_t)bits : bytes == 4 ? (int32_t)bits : (int64_t)bits;
}

/* A number that NIfTI-1 stores as f32 and NIfTI-2 as f64. */
static double get_real(const uint8_t *at, int version, bool big_endian)
{
    uint64_t bits = get_bits(at, version == 1 ? 4 : 8, big_endian);
    uint32_t low = (uint32_t)bits;
    float single;
    double result;
    if (version == 2) {
        memcpy(&result, &bits, sizeof result);
        return result;
    }
    memcpy(&single, &low, sizeof single);
    return (double)single;
}

double clt_nifti_real(const clt_nifti *header, int at)
{
    return get_real(header->header + at, header->version, header->big_endian);
}

int64_t clt_nifti_whole(const clt_nifti *header, int at, int bytes)
{
    return get_int(header->header + at, bytes, header->big_endian);
}

static void put_real(uint8_t *at, int version, bool big_endian, double value)
{
    float single = (float)value;
    uint32_t low;
    uint64_t bits;
    memcpy(&low, &single, sizeof low);
    memcpy(&bits, &value, sizeof bits);
    put_bits(at, version == 1 ? 4 : 8, big_endian, version == 1 ? low : bits);
}

static const field_places *places_of(const clt_nifti *h)
{
    return h->version == 1 ? &places_1 : &places_2;
}

static const uint8_t *at_dim(const clt_nifti *h, int i)
{
    return h->header + places_of(h)->dim + i * (h->version == 1 ? 2 : 8);
}

/* --- reading --- */

static clt_status find_version(const uint8_t *b, uint64_t size, const char *path, clt_nifti *out)
{
    if (size == 0)
        CLT_FAIL(CLT_EDATA, "reading '%s': the file is empty; copy or download it again", path);
    CLT_TRY(clt_fail_prefix(clt_refuse_pointer(b, size, "the data itself", CLT_EDATA), "reading '%s'", path));
    for (int big = 0; big < 2 && size >= 4; big++) {
        int64_t first = get_int(b, 4, big);
        if (first != CLT_NIFTI1_HEADER && first != CLT_NIFTI2_HEADER)
            continue;
        out->version = first == CLT_NIFTI1_HEADER ? 1 : 2;
        out->big_endian = big;
        if (size < (uint64_t)first)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': the file is cut off inside the NIfTI header, after %llu bytes; copy or "
                     "download it again",
                     path, (unsigned long long)size);
        memcpy(out->header, b, (size_t)first);
        return CLT_OK;
    }
    CLT_FAIL(
        CLT_EDATA,
        "reading '%s': it is not a NIfTI file: one begins with the number 348 (NIfTI-1) or 540 (NIfTI-2), "
        "plain or packed by gzip; is it the right file?",
        path);
}

static clt_status check_magic(clt_nifti *h, const char *path)
{
    static const struct {
        const char *one, *pair;
        size_t length;
    } magics[] = {{"n+1", "ni1", 4}, {"n+2\0\r\n\x1a\n", "ni2\0\r\n\x1a\n", 8}};
    const uint8_t *magic = h->header + places_of(h)->magic;
    size_t length = magics[h->version - 1].length;
    h->pair = memcmp(magic, magics[h->version - 1].pair, length) == 0;
    if (h->pair || memcmp(magic, magics[h->version - 1].one, length) == 0)
        return CLT_OK;
    if (h->version == 1 && magic[0] == 0)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': it is an ANALYZE 7.5 header (it has no magic), which does not say where left and "
            "right are; convert it to NIfTI with a program that knows how it was written, for instance "
            "nibabel: nibabel.save(nibabel.load('x.hdr'), 'x.nii.gz')",
            path);
    bool line_ends = h->version == 2 && (memcmp(magic, "n+2", 3) == 0 || memcmp(magic, "ni2", 3) == 0);
    CLT_FAIL(CLT_EDATA, "reading '%s': the NIfTI-%d header has another magic than \"n+%d\" or \"ni%d\"; %s",
             path, h->version, h->version, h->version,
             line_ends ? "a transfer as text has changed its bytes, copy or download it again as binary data"
                       : "it is damaged, copy it again");
}

static clt_status take_dims(clt_nifti *h, const char *path)
{
    int width = h->version == 1 ? 2 : 8;
    int64_t ndim = get_int(at_dim(h, 0), width, h->big_endian);
    if (ndim < 1 || ndim > CLT_NIFTI_DIMS)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the header declares %lld dimensions (dim[0]), 1 to 7 are possible; it is "
                 "damaged",
                 path, (long long)ndim);
    h->ndim = (int)ndim;
    for (int i = 0; i < h->ndim; i++) {
        h->dim[i] = get_int(at_dim(h, i + 1), width, h->big_endian);
        if (h->dim[i] < 1)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': dimension %d of %d in the header is %lld, it must be at least 1; the "
                     "header is damaged",
                     path, i + 1, h->ndim, (long long)h->dim[i]);
    }
    return CLT_OK;
}

static clt_status take_type(clt_nifti *h, const char *path)
{
    const field_places *p = places_of(h);
    int64_t code = get_int(h->header + p->datatype, 2, h->big_endian),
            bits = get_int(h->header + p->bitpix, 2, h->big_endian);
    for (size_t i = 0; i < sizeof known_types / sizeof known_types[0]; i++) {
        if (known_types[i].code != code)
            continue;
        h->element = known_types[i].element;
        int64_t stored = 8 * (int64_t)clt_element_bytes(h->element);
        /* some programs write only the number of bits in use, such as 12 of 16 */
        bool part = !clt_element_is_float(h->element) && 2 * bits > stored && bits < stored;
        if (bits != stored && !part)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': datatype %lld (%s) has %zu bits, but the header declares %lld (bitpix); "
                     "it is damaged",
                     path, (long long)code, clt_element_name(h->element), 8 * clt_element_bytes(h->element),
                     (long long)bits);
        return CLT_OK;
    }
    for (size_t i = 0; i < sizeof other_types / sizeof other_types[0]; i++)
        if (other_types[i].code == code)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': its voxels are %s (datatype %lld), which is not supported; convert them "
                     "to numbers (integers of 8 to 64 bits, f32 or f64)",
                     path, other_types[i].name, (long long)code);
    CLT_FAIL(CLT_EDATA, "reading '%s': datatype %lld in the header is unknown; the header is damaged", path,
             (long long)code);
}

static clt_status take_scaling(clt_nifti *h, const char *path)
{
    const field_places *p = places_of(h);
    double slope = get_real(h->header + p->slope, h->version, h->big_endian),
           inter = get_real(h->header + p->inter, h->version, h->big_endian);
    h->slope = 1;
    h->inter = 0;
    if (isnan(slope) || !(fabs(slope) > 0))
        return CLT_OK;
    if (!isfinite(slope) || !isfinite(inter) || fabs(slope) > 1e30 || fabs(inter) > 1e30)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': slope %g and intercept %g in the header (scl_slope, scl_inter) are not "
                 "scaling of numbers; the header is damaged",
                 path, slope, inter);
    h->slope = slope;
    h->inter = inter;
    return CLT_OK;
}

static clt_status take_offset(clt_nifti *h, const char *path)
{
    const field_places *p = places_of(h);
    double offset = h->version == 1 ? get_real(h->header + p->vox_offset, 1, h->big_endian)
                                    : (double)get_int(h->header + p->vox_offset, 8, h->big_endian);
    int earliest = h->pair ? 0 : p->earliest;
    /* Some programs write offset 0 if the file has no extensions. */
    if (offset >= 0 && offset <= 0)
        offset = earliest;
    if (!(offset >= earliest) || offset > 0x1p48 || floor(offset) < offset)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': the header says that voxels begin at byte %g (vox_offset); it must be a whole "
            "number of at least %d; the header is damaged",
            path, offset, earliest);
    h->offset = (uint64_t)offset;
    return CLT_OK;
}

clt_status clt_nifti_parse(const void *bytes, uint64_t size, const char *path, clt_nifti *out)
{
    memset(out, 0, sizeof *out);
    CLT_TRY(find_version(bytes, size, path, out));
    CLT_TRY(check_magic(out, path));
    CLT_TRY(take_dims(out, path));
    CLT_TRY(take_type(out, path));
    CLT_TRY(take_scaling(out, path));
    return take_offset(out, path);
}

clt_status clt_nifti_read_header(const char *path, clt_nifti *out)
{
    uint8_t start[CLT_NIFTI2_HEADER];
    size_t got;
    CLT_TRY(clt_file_read_start(path, start, sizeof start, CLT_EDATA, &got));
    return clt_nifti_parse(start, got, path, out);
}

clt_status clt_nifti_bytes(const clt_nifti *h, const char *path, uint64_t *bytes)
{
    uint64_t total = clt_element_bytes(h->element);
    for (int i = 0; i < h->ndim; i++)
        if (!clt_mul_u64(total, (uint64_t)h->dim[i], &total) || total > (UINT64_C(1) << 48))
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': its header declares more voxels than a file can hold; the header is "
                     "damaged, copy or download the file again",
                     path);
    *bytes = total + h->offset;
    return CLT_OK;
}

clt_status clt_nifti_describe(const clt_nifti *h, int ndim, clt_array_file *file)
{
    uint64_t dims[CLT_MAX_DIMS] = {1}, bytes;
    for (int i = ndim; i < h->ndim; i++)
        if (h->dim[i] != 1)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': it has %d dimensions, and dimension %d has the size %lld; give volumes "
                     "of %d dimensions",
                     file->path, h->ndim, i + 1, (long long)h->dim[i], ndim);
    for (int i = 0; i < ndim; i++)
        dims[ndim - i] = i < h->ndim ? (uint64_t)h->dim[i] : 1;
    CLT_TRY(clt_nifti_bytes(h, file->path, &bytes));
    file->header = h->offset;
    file->element = h->element;
    file->big_endian = h->big_endian;
    file->dtype = CLT_F32;
    file->scale = h->slope;
    file->mean = -h->inter;
    file->std = 1.0;
    file->normalise = file->scale != 1.0 || file->mean != 0.0;
    if (file->size > bytes) /* bytes after the last voxel are ignored, as in other programs */
        file->size = bytes;
    return clt_array_file_fit(file, ndim + 1, dims);
}

/* --- writing --- */

bool clt_nifti_named(const char *path)
{
    return clt_ends_with(path, ".nii") || clt_ends_with(path, ".nii.gz");
}

/* Makes a header of version 1 without rotation: the file's axes point to the right, the front and the
 * head. */
static void fresh_header(const clt_nifti_image *image, clt_nifti *h)
{
    *h = (clt_nifti){.version = 1};
    put_bits(h->header, 4, false, CLT_NIFTI1_HEADER);
    h->header[38] = 'r';                    /* the field "regular", which old programs check */
    h->header[123] = 2;                     /* xyzt_units: millimetres */
    put_bits(h->header + 254, 2, false, 1); /* sform_code: scanner coordinates */
    put_real(h->header + places_1.pixdim, 1, false, 1);
    for (int i = 0; i < CLT_NIFTI_DIMS; i++) {
        double spacing = image->spacing[i] > 0 ? (double)image->spacing[i] : 1;
        put_real(h->header + places_1.pixdim + 4 * (i + 1), 1, false, spacing);
        if (i < 3) /* the diagonal of srow_x, srow_y, srow_z */
            put_real(h->header + 280 + 16 * i + 4 * i, 1, false, spacing);
    }
    memcpy(h->header + places_1.magic, "n+1", 4);
}

static clt_status make_header(const char *path, const clt_nifti_image *image, clt_nifti *h)
{
    int type = 0;
    for (size_t i = 0; i < sizeof known_types / sizeof known_types[0]; i++)
        type = known_types[i].element == image->element ? known_types[i].code : type;
    if (!type || image->ndim < 1 || image->ndim > CLT_NIFTI_DIMS)
        CLT_FAIL(CLT_EUNSUPPORTED, "writing '%s': NIfTI has no volumes of %d dimensions of type %s", path,
                 image->ndim, clt_element_name(image->element));
    if (image->like)
        *h = *image->like;
    else
        fresh_header(image, h);
    const field_places *p = places_of(h);
    h->header[p->magic + 1] = '+'; /* the result is a single file, even if `like` is the header of a pair */
    h->pair = false;
    int width = h->version == 1 ? 2 : 8;
    bool big = h->big_endian;
    h->ndim = image->ndim;
    h->element = image->element;
    h->offset = (uint64_t)p->earliest;
    for (int i = 0; i < CLT_NIFTI_DIMS; i++) {
        h->dim[i] = i < image->ndim ? image->dim[i] : 1;
        if (h->dim[i] < 1 || (h->version == 1 && h->dim[i] > INT16_MAX))
            CLT_FAIL(CLT_EUNSUPPORTED,
                     "writing '%s': dimension %d is %lld; NIfTI-%d holds sizes from 1 to %s", path, i + 1,
                     (long long)h->dim[i], h->version, h->version == 1 ? "32767" : "2^63 - 1");
        put_bits(h->header + p->dim + width * (i + 1), width, big, (uint64_t)h->dim[i]);
    }
    put_bits(h->header + p->dim, width, big, (uint64_t)image->ndim);
    put_bits(h->header + p->datatype, 2, big, (uint64_t)type);
    put_bits(h->header + p->bitpix, 2, big, 8 * clt_element_bytes(image->element));
    if (h->version == 1)
        put_real(h->header + p->vox_offset, 1, big, p->earliest);
    else
        put_bits(h->header + p->vox_offset, 8, big, (uint64_t)p->earliest);
    put_real(h->header + p->slope, h->version, big, fabs(image->slope) > 0 ? image->slope : 1);
    put_real(h->header + p->inter, h->version, big, image->inter);
    /* clears cal_max and cal_min, the range to display, which is for the voxels of `like` */
    memset(h->header + (h->version == 1 ? 124 : 192), 0, h->version == 1 ? 8 : 16);
    return CLT_OK;
}

/* Copies the voxels in the byte order of the file. */
static void copy_numbers(const clt_nifti_image *image, bool big_endian, uint64_t count, uint8_t *out)
{
    size_t width = clt_element_bytes(image->element);
    const uint8_t *in = image->data;
    memcpy(out, in, count * width);
    if (width == 1 || big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
        return;
    for (uint64_t i = 0; i < count; i++)
        for (size_t b = 0; b < width; b++)
            out[i * width + b] = in[i * width + width - 1 - b];
}

clt_status clt_nifti_write(const char *path, const clt_nifti_image *image)
{
    clt_nifti h;
    uint64_t bytes;
    uint8_t *file = NULL;
    char *packed = NULL;
    size_t length = 0;
    if (!clt_nifti_named(path))
        CLT_FAIL(CLT_EUSAGE, "writing '%s': the name of a NIfTI file ends in .nii or .nii.gz", path);
    CLT_TRY(make_header(path, image, &h));
    CLT_TRY(clt_nifti_bytes(&h, path, &bytes));
    CLT_TRY(clt_alloc(&file, 1, bytes, "a NIfTI file"));
    memcpy(file, h.header, (size_t)places_of(&h)->header);
    copy_numbers(image, h.big_endian, (bytes - h.offset) / clt_element_bytes(h.element), file + h.offset);
    clt_status status = CLT_OK;
    if (clt_ends_with(path, ".gz")) {
        status = clt_fail_prefix(clt_gzip(file, bytes, &packed, &length), "writing '%s'", path);
        if (status == CLT_OK)
            status = clt_file_write(path, packed, length);
    } else {
        status = clt_file_write(path, file, bytes);
    }
    free(packed);
    free(file);
    return status;
}
