/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens NIfTI and .npy files, finds the other files of a volume, and reads its voxels or mask. */
#include "engine/data/volumes/volume_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/data/arrays/source_npy.h"
#include "engine/files/fileio.h"

#define AFTER_VOXELS 65536 /* number of bytes that a packed file may have after its last voxel */
#define NEARLY_WHOLE 1e-3  /* largest distance of a mask's voxel from a whole number */

static const char *const volume_ends[] = {".nii",    ".nii.gz", ".npy",    ".hdr",
                                          ".hdr.gz", ".img",    ".img.gz", NULL};

/* True if the path is longer than `end` and ends with it, in lower or upper case. */
static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcasecmp(path + n - m, end) == 0;
}

size_t clt_volume_stem(const char *path)
{
    for (const char *const *end = volume_ends; *end; end++)
        if (ends_with(path, *end))
            return strlen(path) - strlen(*end);
    return 0;
}

/* --- volumes in several files --- */

bool clt_volume_is_voxels(const char *path)
{
    return ends_with(path, ".img") || ends_with(path, ".img.gz");
}

static bool is_header(const char *path)
{
    return ends_with(path, ".hdr") || ends_with(path, ".hdr.gz");
}

bool clt_volume_is_pair(const char *path)
{
    return is_header(path) || clt_volume_is_voxels(path);
}

clt_status clt_volume_partner(const char *path, char **out)
{
    bool voxels = clt_volume_is_voxels(path);
    size_t stem = clt_volume_stem(path);
    *out = NULL;
    if (!clt_volume_is_pair(path))
        return CLT_OK;
    bool capitals = path[stem + 1] >= 'A' && path[stem + 1] <= 'Z';
    const char *end = capitals ? (voxels ? ".HDR" : ".IMG") : (voxels ? ".hdr" : ".img");
    for (int packed = 0; packed < 2; packed++) {
        clt_str found = {0};
        clt_str_append_n(&found, path, stem);
        clt_str_printf(&found, "%s%s", end, packed ? capitals ? ".GZ" : ".gz" : "");
        CLT_TRY(clt_str_check(&found));
        if (clt_file_exists(found.text)) {
            *out = found.text;
            return CLT_OK;
        }
        clt_str_free(&found);
    }
    return CLT_OK;
}

bool clt_volume_channel(const char *name, size_t stem, int *channel)
{
    *channel = 0;
    if (stem < 6 || name[stem - 5] != '_')
        return false;
    for (size_t i = stem - 4; i < stem; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        *channel = 10 * *channel + (name[i] - '0');
    }
    return true;
}

clt_status clt_volume_channel_path(const char *path, int channel, char **out)
{
    size_t stem = clt_volume_stem(path);
    clt_str text = {0};
    clt_str_append_n(&text, path, stem - 4);
    clt_str_printf(&text, "%04d%s", channel, path + stem);
    *out = text.text;
    return clt_str_check(&text);
}

/* --- opening --- */

/* Sets channels and size from dimensions in the order of memory; the last three are spatial. */
static clt_status take_size(clt_volume *v, const char *path, int ndim, const int64_t *dim)
{
    int64_t voxels = 1;
    v->channels = 1;
    for (int i = 0; i < 3; i++)
        v->size[i] = ndim - 3 + i >= 0 ? dim[ndim - 3 + i] : 1;
    for (int i = 0; i < ndim - 3; i++)
        v->channels *= dim[i];
    for (int i = 0; i < ndim; i++)
        voxels *= dim[i];
    if (voxels > INT32_MAX)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it has %lld numbers, volumes of up to 2147483647 are supported; resample it "
                 "or cut it into parts",
                 path, (long long)voxels);
    return CLT_OK;
}

static clt_status take_nifti(clt_volume *v, const char *path)
{
    int64_t dim[5];
    uint64_t bytes;
    CLT_TRY(clt_nifti_bytes(&v->header, path, &bytes)); /* checks that products of sizes do not overflow */
    for (int i = 5; i < v->header.ndim; i++)
        if (v->header.dim[i] != 1)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': dimension %d of %d has the size %lld; a volume has three dimensions and "
                     "perhaps channels (the 4th and 5th dimension)",
                     path, i + 1, v->header.ndim, (long long)v->header.dim[i]);
    for (int i = 0; i < 5; i++)
        dim[4 - i] = i < v->header.ndim ? v->header.dim[i] : 1;
    v->is_nifti = true;
    clt_nifti_space_of(&v->header, &v->space);
    return take_size(v, path, 5, dim);
}

static bool is_npy(const char *path)
{
    return ends_with(path, ".npy");
}

/* Takes the dimensions of an opened .npy file, and makes its array one sample. */
static clt_status take_npy(clt_volume *v, const char *path)
{
    clt_array_file *file = &v->array;
    uint64_t dims[CLT_MAX_DIMS] = {1};
    int64_t dim[CLT_MAX_DIMS];
    CLT_TRY(clt_npy_read_header(file, NULL, false));
    int ndim = file->shape.ndim + 1;
    if (ndim < 2 || ndim > 4)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the array has %d dimensions; a volume has (depth, height, width) or "
                 "(channels, depth, height, width)",
                 path, ndim);
    for (int i = 0; i < ndim; i++) {
        dim[i] = i == 0 ? file->samples : file->shape.dim[i - 1];
        dims[i + 1] = (uint64_t)dim[i];
    }
    CLT_TRY(take_size(v, path, ndim, dim));
    file->dtype = CLT_F32;
    file->normalise = false;
    return clt_array_file_fit(file, ndim + 1, dims);
}

static clt_status check_length(const clt_volume *v, const char *path)
{
    uint64_t bytes;
    CLT_SCOPED(clt_mapping) mapping = {0};
    CLT_TRY(clt_nifti_bytes(&v->header, path, &bytes));
    CLT_TRY(clt_map_open(path, CLT_EDATA, &mapping));
    bool packed = clt_is_gzip(mapping.data, mapping.size);
    if (!packed && mapping.size < bytes)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off: its header declares %llu bytes, it ends after %llu; "
                 "copy or download it again",
                 path, (unsigned long long)bytes, (unsigned long long)mapping.size);
    return CLT_OK;
}

/* Finds the file of voxels of a pair, and checks that name and header agree on whether it is a pair. */
static clt_status find_voxels(clt_volume *v, const char *path)
{
    bool pair = clt_volume_is_pair(path);
    if (v->header.pair && !pair)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': its header says that the voxels are in another file (its magic is \"ni%d\"); name "
            "the two NAME.hdr and NAME.img",
            path, v->header.version);
    if (!v->header.pair && pair)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it is named as one of a pair of files, but its header says that the voxels "
                 "follow in the same file; rename it to .nii",
                 path);
    if (!pair || clt_volume_is_voxels(path))
        return CLT_OK;
    CLT_TRY(clt_volume_partner(path, &v->voxels_path));
    if (!v->voxels_path)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': it is the header of a pair of files, and the voxels, a file of the same name that "
            "ends in .img or .img.gz, are missing; copy both",
            path);
    return CLT_OK;
}

/* Reads the header of a NIfTI file or of a pair; `path` may name either file of the pair. *voxels: the file
 * that contains the voxels. */
static clt_status read_header(clt_volume *v, const char *path, const char **voxels)
{
    if (clt_volume_is_voxels(path)) {
        CLT_TRY(clt_volume_partner(path, &v->header_path));
        if (!v->header_path)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': it holds the voxels of a pair of files, and the header, a file of the "
                     "same name that ends in .hdr, is missing; copy both",
                     path);
    }
    CLT_TRY(clt_nifti_read_header(v->header_path ? v->header_path : path, &v->header));
    CLT_TRY(find_voxels(v, path));
    *voxels = v->voxels_path ? v->voxels_path : path;
    return take_nifti(v, path);
}

static clt_status look_at_one(clt_volume *v, const char *path, const char *key)
{
    const char *voxels;
    if (is_npy(path)) {
        clt_status status = clt_array_file_open_at_most(&v->array, path, key, 0);
        if (status == CLT_OK)
            status = take_npy(v, path);
        clt_array_file_close(&v->array);
        return status;
    }
    CLT_TRY(read_header(v, path, &voxels));
    return check_length(v, voxels);
}

static clt_status open_one(clt_volume *v, const char *path, const char *key)
{
    const char *voxels;
    uint64_t bytes = 0;
    if (is_npy(path)) {
        CLT_TRY(clt_array_file_open_at_most(&v->array, path, key, 0));
        return take_npy(v, path);
    }
    CLT_TRY(read_header(v, path, &voxels));
    CLT_TRY(clt_nifti_bytes(&v->header, path, &bytes));
    CLT_TRY(clt_array_file_open_at_most(&v->array, voxels, key, bytes + AFTER_VOXELS));
    return clt_nifti_describe(&v->header, 5, &v->array);
}

/* Checks that another channel's file has the size of the first one; notes a different spacing or position. */
static clt_status check_channel(clt_volume *v, const clt_volume *other, const char *path)
{
    const int64_t size[3] = {v->size[2], v->size[1], v->size[0]};
    char text[96];
    if (v->channels != 1 || other->channels != 1)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': the number at the end of its name says that it is one channel of several, but it "
            "has %lld channels; give each channel a file, or all of them one file",
            path, (long long)(other->channels != 1 ? other->channels : v->channels));
    if (memcmp(v->size, other->size, sizeof v->size) != 0)
        CLT_FAIL(
            CLT_EDATA,
            "reading '%s': it has %lld x %lld x %lld voxels (depth, height, width), the first channel has "
            "%lld x %lld x %lld; the channels of a volume must be of one size",
            path, (long long)other->size[0], (long long)other->size[1], (long long)other->size[2],
            (long long)v->size[0], (long long)v->size[1], (long long)v->size[2]);
    if (!v->space.conflict[0] && v->is_nifti && other->is_nifti &&
        clt_nifti_space_differs(&v->space, &other->space, size, false, text, sizeof text))
        (void)snprintf(v->space.conflict, sizeof v->space.conflict, "its channel %d has %s", v->n_more + 1,
                       text);
    return CLT_OK;
}

/* Opens the files of all channels with `open_file`, which is open_one or, to read only headers,
 * look_at_one. */
static clt_status add_channels(clt_volume *v, const char *path, int files, const char *key,
                               clt_status (*open_file)(clt_volume *, const char *, const char *))
{
    memset(v, 0, sizeof *v);
    CLT_TRY(open_file(v, path, key));
    if (files <= 1)
        return CLT_OK;
    CLT_TRY(clt_alloc(&v->more, (size_t)files - 1, sizeof *v->more, "channels of a volume"));
    for (int k = 1; k < files; k++) {
        clt_volume *other = &v->more[k - 1];
        CLT_TRY(clt_volume_channel_path(path, k, &other->own_path));
        clt_status status = open_file(other, other->own_path, key);
        if (status == CLT_OK)
            status = check_channel(v, other, other->own_path);
        v->n_more = k;
        CLT_TRY(status);
    }
    v->channels = files;
    return CLT_OK;
}

clt_status clt_volume_look(clt_volume *v, const char *path, int files, const char *key)
{
    return add_channels(v, path, files, key, look_at_one);
}

clt_status clt_volume_open(clt_volume *v, const char *path, int files, const char *key)
{
    return add_channels(v, path, files, key, open_one);
}

void clt_volume_close(clt_volume *v)
{
    for (int k = 0; k < v->n_more; k++)
        clt_volume_close(&v->more[k]);
    clt_array_file_close(&v->array);
    free(v->more);
    free(v->header_path);
    free(v->voxels_path);
    free(v->own_path);
    v->more = NULL;
    v->n_more = 0;
    v->header_path = v->voxels_path = v->own_path = NULL;
}

uint64_t clt_volume_unpacked(const clt_volume *v)
{
    uint64_t bytes = v->array.unpacked ? v->array.size : 0;
    for (int k = 0; k < v->n_more; k++)
        bytes += clt_volume_unpacked(&v->more[k]);
    return bytes;
}

/* --- voxels --- */

static clt_status copy_row(const clt_volume *v, int64_t row, const int64_t at[3], const int64_t box[3],
                           float outside, float *out)
{
    int64_t first = at[2] < 0 ? 0 : at[2], last = at[2] + box[2] < v->size[2] ? at[2] + box[2] : v->size[2];
    for (int64_t x = 0; x < box[2]; x++)
        if (at[2] + x < first || at[2] + x >= last)
            out[x] = outside;
    if (first >= last)
        return CLT_OK;
    return clt_array_file_read_part(&v->array, 0, row * v->size[2] + first, last - first,
                                    out + (first - at[2]));
}

clt_status clt_volume_box(const clt_volume *v, const int64_t at[3], const int64_t box[3], float outside,
                          float *out)
{
    for (int64_t c = 0; c < v->channels; c++) {
        /* each channel has a file, or one file has all channels */
        const clt_volume *file = v->n_more && c > 0 ? &v->more[c - 1] : v;
        int64_t first = v->n_more ? 0 : c * v->size[0];
        for (int64_t z = at[0]; z < at[0] + box[0]; z++)
            for (int64_t y = at[1]; y < at[1] + box[1]; y++, out += box[2]) {
                bool inside = z >= 0 && z < v->size[0] && y >= 0 && y < v->size[1];
                if (inside)
                    CLT_TRY(copy_row(file, (first + z) * v->size[1] + y, at, box, outside, out));
                for (int64_t x = 0; x < box[2] && !inside; x++)
                    out[x] = outside;
            }
    }
    return CLT_OK;
}

void clt_values_box(const float *values, int64_t channels, const int64_t size[3], const int64_t at[3],
                    const int64_t box[3], float outside, float *out)
{
    const int64_t *n = size;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t z = at[0]; z < at[0] + box[0]; z++)
            for (int64_t y = at[1]; y < at[1] + box[1]; y++)
                for (int64_t x = at[2]; x < at[2] + box[2]; x++) {
                    bool inside = z >= 0 && z < n[0] && y >= 0 && y < n[1] && x >= 0 && x < n[2];
                    *out++ = inside ? values[((c * n[0] + z) * n[1] + y) * n[2] + x] : outside;
                }
}

clt_status clt_volume_posed_values(const clt_volume *v, const clt_volume_pose *pose, float **out)
{
    CLT_FREED float *all = NULL;
    int64_t origin[3] = {0};
    *out = NULL;
    CLT_TRY(clt_alloc(&all, (size_t)(v->channels * clt_voxels(v->size)), sizeof *all, "a volume"));
    CLT_TRY(clt_volume_box(v, origin, v->size, 0.0f, all));
    if (!clt_volume_posed(pose)) {
        *out = CLT_TAKE(all);
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(out, (size_t)(v->channels * clt_voxels(pose->size)), sizeof **out, "a volume"));
    clt_volume_pose_image(pose, all, v->channels, *out);
    return CLT_OK;
}

static clt_status bad_class(const clt_volume *v, int64_t voxel, double value, int64_t classes,
                            const int64_t *values)
{
    int64_t x = voxel % v->size[2], y = voxel / v->size[2] % v->size[1], z = voxel / v->size[2] / v->size[1];
    char place[160];
    (void)snprintf(place, sizeof place, "voxel %lld,%lld,%lld (depth, height, width) is %.7g", (long long)z,
                   (long long)y, (long long)x, value);
    if (value < -NEARLY_WHOLE || fabs(value - floor(value + 0.5)) > NEARLY_WHOLE)
        CLT_FAIL(CLT_EDATA,
                 "reading the mask '%s': %s; voxels of a mask are class numbers: whole (to %g), from 0 on",
                 v->array.path, place, NEARLY_WHOLE);
    if (values)
        CLT_FAIL(CLT_EDATA,
                 "reading the mask '%s': %s, which is not one of the %lld values of data.mask_values; repair "
                 "the mask or add the value there",
                 v->array.path, place, (long long)classes);
    CLT_FAIL(CLT_EDATA,
             "reading the mask '%s': %s, a class beyond the last one, %lld; repair the mask%s, or say in "
             "data.mask_values which value is which class ([0,255]: 255 is class 1)",
             v->array.path, place, (long long)classes - 1,
             classes < CLT_MASK_CLASSES ? ", raise data.mask_classes" : "");
}

/* The class of a voxel; `classes` if the voxel is not a class. */
static int64_t class_of(float value, int64_t classes, const int64_t *values)
{
    float whole = floorf(value + 0.5f);
    int64_t k = 0;
    if (!(fabsf(value - whole) <= (float)NEARLY_WHOLE) || !(whole >= 0))
        return classes;
    if (!values)
        return whole < (float)classes ? (int64_t)whole : classes;
    while (k < classes && (float)values[k] != whole)
        k++;
    return k;
}

clt_status clt_volume_mask(const clt_volume *v, int64_t classes, const int64_t *values, uint8_t *out)
{
    float row[1024];
    int64_t count = clt_voxels(v->size);
    if (v->channels != 1)
        CLT_FAIL(CLT_EDATA, "reading the mask '%s': it has %lld channels, a mask has one class per voxel",
                 v->array.path, (long long)v->channels);
    classes = classes > CLT_MASK_CLASSES ? CLT_MASK_CLASSES : classes;
    for (int64_t at = 0; at < count; at += 1024) {
        int64_t n = count - at < 1024 ? count - at : 1024;
        CLT_TRY(clt_array_file_read_part(&v->array, 0, at, n, row));
        for (int64_t i = 0; i < n; i++) {
            int64_t k = class_of(row[i], classes, values);
            if (k >= classes)
                return bad_class(v, at + i, (double)row[i], classes, values);
            out[at + i] = (uint8_t)k;
        }
    }
    return CLT_OK;
}

clt_status clt_volume_check(const clt_volume *v)
{
    float row[4096];
    int64_t count = v->array.sample_elements;
    for (int64_t at = 0; at < count; at += 4096)
        CLT_TRY(clt_array_file_read_part(&v->array, 0, at, count - at < 4096 ? count - at : 4096, row));
    for (int k = 0; k < v->n_more; k++)
        CLT_TRY(clt_volume_check(&v->more[k]));
    return CLT_OK;
}

/* --- resampling --- */

/* `stride`: elements between voxels of `from`. `step`: distance of two voxels of `to`, in voxels of
 * `from`. */
static void find_steps(const int64_t from[3], const int64_t to[3], int64_t stride[3], double step[3])
{
    stride[0] = from[1] * from[2];
    stride[1] = from[2];
    stride[2] = 1;
    for (int i = 0; i < 3; i++)
        step[i] = (double)from[i] / (double)to[i];
}

void clt_volume_resize(const float *in, int64_t channels, const int64_t from[3], const int64_t to[3],
                       float *out)
{
    int64_t stride[3];
    double step[3];
    find_steps(from, to, stride, step);
    for (int64_t c = 0; c < channels; c++)
        clt_volume_sample(in + c * clt_voxels(from), stride, from, step, to, out + c * clt_voxels(to));
}

void clt_volume_resize_mask(const uint8_t *in, const int64_t from[3], const int64_t to[3], uint8_t *out)
{
    int64_t stride[3];
    double step[3];
    find_steps(from, to, stride, step);
    clt_volume_sample_mask(in, stride, from, step, to, out);
}
