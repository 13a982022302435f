/* SPDX-License-Identifier: Apache-2.0
 *
 * Volumes in files: see volume_file.h. */
#include "engine/data/volume_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/source_npy.h"

#define BEHIND_VOXELS 65536 /* bytes that a packed file may have behind its last voxel */

const char *const clt_volume_ends[] = {".nii", ".nii.gz", ".npy", NULL};

size_t clt_volume_stem(const char *path)
{
    size_t n = strlen(path);
    for (const char *const *end = clt_volume_ends; *end; end++) {
        size_t m = strlen(*end);
        if (n > m && strcmp(path + n - m, *end) == 0)
            return n - m;
    }
    return 0;
}

/* --- opening --- */

/* Sets channels and size from dimensions in the order of memory, of which the last three are spatial. */
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
    CLT_TRY(clt_nifti_bytes(&v->header, path, &bytes)); /* so that the products below do not overflow */
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
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".npy") == 0;
}

/* The dimensions of an opened .npy file; its array becomes one sample. */
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
    clt_mapping mapping;
    CLT_TRY(clt_nifti_bytes(&v->header, path, &bytes));
    CLT_TRY(clt_map_open(path, CLT_EDATA, &mapping));
    uint64_t size = mapping.size;
    bool packed = size >= 2 && mapping.data[0] == 0x1f && mapping.data[1] == 0x8b;
    clt_map_close(&mapping);
    if (!packed && size < bytes)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': the file is cut off: its header declares %llu bytes, it ends after %llu; "
                 "copy or download it again",
                 path, (unsigned long long)bytes, (unsigned long long)size);
    return CLT_OK;
}

clt_status clt_volume_look(clt_volume *v, const char *path)
{
    memset(v, 0, sizeof *v);
    if (is_npy(path)) {
        clt_status status = clt_volume_open(v, path, "data.path");
        clt_volume_close(v);
        return status;
    }
    CLT_TRY(clt_nifti_read_header(path, &v->header));
    CLT_TRY(take_nifti(v, path));
    return check_length(v, path);
}

clt_status clt_volume_open(clt_volume *v, const char *path, const char *key)
{
    uint64_t bytes = 0;
    memset(v, 0, sizeof *v);
    if (is_npy(path)) {
        CLT_TRY(clt_array_file_open_at_most(&v->array, path, key, 0));
        return take_npy(v, path);
    }
    CLT_TRY(clt_nifti_read_header(path, &v->header));
    CLT_TRY(take_nifti(v, path));
    CLT_TRY(clt_nifti_bytes(&v->header, path, &bytes));
    CLT_TRY(clt_array_file_open_at_most(&v->array, path, key, bytes + BEHIND_VOXELS));
    return clt_nifti_describe(&v->header, 5, &v->array);
}

void clt_volume_close(clt_volume *v)
{
    clt_array_file_close(&v->array);
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
    for (int64_t c = 0; c < v->channels; c++)
        for (int64_t z = at[0]; z < at[0] + box[0]; z++)
            for (int64_t y = at[1]; y < at[1] + box[1]; y++, out += box[2]) {
                bool inside = z >= 0 && z < v->size[0] && y >= 0 && y < v->size[1];
                if (inside)
                    CLT_TRY(copy_row(v, (c * v->size[0] + z) * v->size[1] + y, at, box, outside, out));
                for (int64_t x = 0; x < box[2] && !inside; x++)
                    out[x] = outside;
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
    float *all = NULL;
    int64_t origin[3] = {0};
    *out = NULL;
    CLT_TRY(clt_alloc(&all, (size_t)(v->channels * clt_voxels(v->size)), sizeof *all, "a volume"));
    clt_status status = clt_volume_box(v, origin, v->size, 0.0f, all);
    if (status == CLT_OK && !clt_volume_posed(pose)) {
        *out = all;
        return CLT_OK;
    }
    if (status == CLT_OK)
        status = clt_alloc(out, (size_t)(v->channels * clt_voxels(pose->size)), sizeof **out, "a volume");
    if (status == CLT_OK)
        clt_volume_pose_image(pose, all, v->channels, *out);
    free(all);
    return status;
}

static clt_status bad_class(const clt_volume *v, int64_t voxel, double value, int64_t classes)
{
    int64_t x = voxel % v->size[2], y = voxel / v->size[2] % v->size[1], z = voxel / v->size[2] / v->size[1];
    if (value < 0 || floor(value) < value)
        CLT_FAIL(CLT_EDATA,
                 "reading the mask '%s': voxel %lld,%lld,%lld (depth, height, width) is %g; voxels of a mask "
                 "are class numbers: whole, from 0 on",
                 v->array.path, (long long)z, (long long)y, (long long)x, value);
    CLT_FAIL(CLT_EDATA,
             "reading the mask '%s': voxel %lld,%lld,%lld (depth, height, width) is %g, a class beyond the "
             "last one, %lld; repair the mask or raise data.mask_classes",
             v->array.path, (long long)z, (long long)y, (long long)x, value, (long long)classes - 1);
}

clt_status clt_volume_mask(const clt_volume *v, int64_t classes, uint8_t *out)
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
            if (!(row[i] >= 0) || !(row[i] < (float)classes) || floorf(row[i]) < row[i])
                return bad_class(v, at + i, (double)row[i], classes);
            out[at + i] = (uint8_t)row[i];
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
    return CLT_OK;
}

/* --- resampling --- */

/* The distances between voxels in memory, and how many of them there are between voxels of the result. */
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
