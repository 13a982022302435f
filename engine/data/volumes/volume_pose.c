/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns and resamples volumes. A volume is turned without a copy, by reading it with other strides, which
 * may be negative. */
#include "engine/data/volumes/volume_pose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAME_SPACING 1e-4 /* relative tolerance: headers store f32 */

void clt_volume_want_read(const clt_config *config, clt_volume_want *out)
{
    int n = clt_config_list_count(config, "data.spacing");
    memset(out, 0, sizeof *out);
    snprintf(out->axes, sizeof out->axes, "%s", clt_config_string(config, "data.orientation"));
    out->spaces = n > 0;
    for (int i = 0; i < 3 && out->spaces; i++)
        out->spacing[i] = clt_config_list_float(config, "data.spacing", n == 1 ? 0 : i);
}

/* The file's axis (0 x, 1 y, 2 z) that lies along an axis of the body (clt_axis_of). */
static int axis_along(const char *axes, int direction)
{
    bool up;
    int found = 0;
    for (int i = 0; i < 3; i++)
        if (clt_axis_of(axes[i], &up) == direction)
            found = i;
    return found;
}

/* Sets `from`, `flip` and `turns` of the pose. Axis i in memory is axis 2 - i in the order x, y, z. */
static void find_turn(const char *wanted, const char *have, clt_volume_pose *pose)
{
    for (int i = 0; i < 3; i++) {
        bool up;
        char letter = wanted[2 - i];
        int axis = axis_along(have, clt_axis_of(letter, &up));
        pose->from[i] = 2 - axis;
        pose->flip[i] = have[axis] != letter;
        pose->turns = pose->turns || pose->from[i] != i || pose->flip[i];
    }
}

static clt_status find_step(const clt_volume_want *want, const clt_nifti_space *space, const char *path,
                            clt_volume_pose *pose)
{
    double voxels = 1;
    for (int i = 0; i < 3; i++) {
        double spacing = space ? space->spacing[2 - pose->from[i]] : 0;
        if (!(spacing > 0))
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': %s the distance between its voxels, which data.spacing needs; remove "
                     "data.spacing, or write the volume with its spacing",
                     path, space ? "the header (pixdim) does not say" : "a .npy file does not say");
        double step = want->spacing[i] / spacing, size = floor((double)pose->turned[i] / step + 0.5);
        if (fabs(step - 1) < SAME_SPACING)
            continue;
        pose->resamples = true;
        pose->step[i] = step;
        pose->size[i] = size < 1 ? 1 : size > INT32_MAX ? INT32_MAX : (int64_t)size;
    }
    for (int i = 0; i < 3; i++)
        voxels *= (double)pose->size[i];
    if (voxels > INT32_MAX)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': with data.spacing it has %lld x %lld x %lld voxels, up to 2147483647 are "
                 "supported; raise data.spacing",
                 path, (long long)pose->size[0], (long long)pose->size[1], (long long)pose->size[2]);
    return CLT_OK;
}

clt_status clt_volume_pose_find(const clt_volume_want *want, const clt_nifti_space *space,
                                const int64_t size[3], const char *path, clt_volume_pose *out)
{
    *out = (clt_volume_pose){.from = {0, 1, 2}, .step = {1, 1, 1}};
    memcpy(out->file, size, sizeof out->file);
    if (want->axes[0]) {
        if (!space || !space->axes[0])
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': %s how the volume lies in the body, which data.orientation needs; remove "
                     "data.orientation, or write the volume with its orientation",
                     path, space ? "the header (sform and qform) does not say" : "a .npy file does not say");
        find_turn(want->axes, space->axes, out);
    }
    for (int i = 0; i < 3; i++)
        out->size[i] = out->turned[i] = size[out->from[i]];
    return want->spaces ? find_step(want, space, path, out) : CLT_OK;
}

/* Sets `stride`: for each axis of the turned volume, the number of the file's elements between neighbours.
 * Returns the index in the file of the turned volume's first voxel. */
static int64_t strides_of(const clt_volume_pose *pose, int64_t stride[3])
{
    const int64_t in_file[3] = {pose->file[1] * pose->file[2], pose->file[2], 1};
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        stride[i] = in_file[pose->from[i]];
        if (pose->flip[i]) {
            first += (pose->turned[i] - 1) * stride[i];
            stride[i] = -stride[i];
        }
    }
    return first;
}

static float mix(float a, float b, float part)
{
    return a + (b - a) * part;
}

void clt_volume_sample(const float *in, const int64_t stride[3], const int64_t from[3], const double step[3],
                       const int64_t to[3], float *out)
{
    for (int64_t z = 0; z < to[0]; z++)
        for (int64_t y = 0; y < to[1]; y++) {
            clt_between bz = clt_find_between(z, step[0], from[0]),
                        by = clt_find_between(y, step[1], from[1]);
            const float *low = in + bz.low * stride[0], *high = in + bz.high * stride[0];
            const float *row[2][2] = {{low + by.low * stride[1], low + by.high * stride[1]},
                                      {high + by.low * stride[1], high + by.high * stride[1]}};
            for (int64_t x = 0; x < to[2]; x++) {
                clt_between bx = clt_find_between(x, step[2], from[2]);
                int64_t a = bx.low * stride[2], b = bx.high * stride[2];
                float plane[2];
                for (int k = 0; k < 2; k++)
                    plane[k] = mix(mix(row[k][0][a], row[k][0][b], bx.part),
                                   mix(row[k][1][a], row[k][1][b], bx.part), by.part);
                *out++ = mix(plane[0], plane[1], bz.part);
            }
        }
}

void clt_volume_pose_image(const clt_volume_pose *pose, const float *in, int64_t channels, float *out)
{
    int64_t stride[3], first = strides_of(pose, stride),
                       voxels = pose->file[0] * pose->file[1] * pose->file[2];
    for (int64_t c = 0; c < channels; c++, in += voxels) {
        const float *at = in + first;
        if (pose->resamples) {
            clt_volume_sample(at, stride, pose->turned, pose->step, pose->size, out);
            out += pose->size[0] * pose->size[1] * pose->size[2];
            continue;
        }
        for (int64_t z = 0; z < pose->size[0]; z++)
            for (int64_t y = 0; y < pose->size[1]; y++)
                for (int64_t x = 0; x < pose->size[2]; x++)
                    *out++ = at[z * stride[0] + y * stride[1] + x * stride[2]];
    }
}

/* Index of the source voxel (one of `from`) that contains the centre of voxel i of the result. A centre
 * on the border of two voxels belongs to the second one; 1e-9 is added because the product may be rounded
 * down. */
static int64_t nearest(int64_t i, double step, int64_t from)
{
    int64_t at = (int64_t)(((double)i + 0.5) * step + 1e-9);
    return at < from ? at : from - 1;
}

/* The size of a volume, and the number of elements between neighbouring voxels along each axis. */
typedef struct voxels {
    int64_t size[3], stride[3];
} voxels;

/* Sets each voxel of `to` to the nearest voxel of `from`. `step`: distance of two voxels of `to`, in voxels
 * of `from`. */
static void take_nearest(const uint8_t *in, const voxels *from, const double step[3], uint8_t *out,
                         const voxels *to)
{
    for (int64_t z = 0; z < to->size[0]; z++)
        for (int64_t y = 0; y < to->size[1]; y++) {
            const uint8_t *row = in + nearest(z, step[0], from->size[0]) * from->stride[0] +
                                 nearest(y, step[1], from->size[1]) * from->stride[1];
            uint8_t *result = out + z * to->stride[0] + y * to->stride[1];
            for (int64_t x = 0; x < to->size[2]; x++)
                result[x * to->stride[2]] = row[nearest(x, step[2], from->size[2]) * from->stride[2]];
        }
}

/* A volume whose voxels are contiguous in memory. */
static voxels dense(const int64_t size[3])
{
    return (voxels){{size[0], size[1], size[2]}, {size[1] * size[2], size[2], 1}};
}

void clt_volume_sample_mask(const uint8_t *in, const int64_t stride[3], const int64_t from[3],
                            const double step[3], const int64_t to[3], uint8_t *out)
{
    const voxels source = {{from[0], from[1], from[2]}, {stride[0], stride[1], stride[2]}},
                 result = dense(to);
    take_nearest(in, &source, step, out, &result);
}

void clt_volume_pose_mask(const clt_volume_pose *pose, const uint8_t *in, uint8_t *out)
{
    int64_t stride[3], first = strides_of(pose, stride);
    clt_volume_sample_mask(in + first, stride, pose->turned, pose->step, pose->size, out);
}

void clt_volume_pose_back(const clt_volume_pose *pose, const uint8_t *in, uint8_t *out)
{
    voxels source = dense(pose->size), result = dense(pose->turned);
    out += strides_of(pose, result.stride);
    take_nearest(in, &source, (double[3]){1 / pose->step[0], 1 / pose->step[1], 1 / pose->step[2]}, out,
                 &result);
}
