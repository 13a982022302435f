/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads spacing, directions and position from a NIfTI header as nifti1.h says: sform (method 3) has
 * precedence over qform (method 2). Compares the positions of two volumes. */
#include "engine/data/volumes/nifti_space.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Offsets of a field in the headers of NIfTI-1 and NIfTI-2, in bytes. */
typedef struct field {
    int at_1, at_2;
} field;

static const field pixdim = {76, 104}, qform_code = {252, 344}, sform_code = {254, 348}, quatern = {256, 352},
                   qoffset = {268, 376}, srow = {280, 400}, units = {123, 500};

#define SAME_SPACING 1e-3   /* relative */
#define SAME_DIRECTION 2e-3 /* per coordinate of a unit vector; an f32 quaternion may be off by half of it */
#define SAME_PLACE 1e-2     /* as a fraction of the smallest spacing */
#define FLAT 1e-3           /* if their determinant is smaller, directions count as lying in one plane */

static double real_at(const clt_nifti *h, field f, int index)
{
    return h->version == 1 ? clt_nifti_real(h, f.at_1 + 4 * index) : clt_nifti_real(h, f.at_2 + 8 * index);
}

static int64_t whole_at(const clt_nifti *h, field f, int bytes_1)
{
    return h->version == 1 ? clt_nifti_whole(h, f.at_1, bytes_1) : clt_nifti_whole(h, f.at_2, 4);
}

static double unit_of(const clt_nifti *h)
{
    int64_t code = (h->version == 1 ? h->header[units.at_1] : whole_at(h, units, 1)) & 7;
    return code == 1 ? 1000.0 : code == 3 ? 0.001 : 1.0; /* metres, micrometres; else millimetres */
}

/* Reads the sform. column[j]: the step from one voxel to the next along file axis j, in millimetres. */
static void from_sform(const clt_nifti *h, double column[3][3], double first[3])
{
    double unit = unit_of(h);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            column[j][i] = real_at(h, srow, 4 * i + j) * unit;
        first[i] = real_at(h, srow, 4 * i + 3) * unit;
    }
}

/* The same for the qform, whose columns have length 1. */
static void from_qform(const clt_nifti *h, double column[3][3], double first[3])
{
    double b = real_at(h, quatern, 0), c = real_at(h, quatern, 1), d = real_at(h, quatern, 2);
    double rest = 1 - (b * b + c * c + d * d), a = rest > 0 ? sqrt(rest) : 0;
    double last = real_at(h, pixdim, 0) < 0 ? -1 : 1;
    const double rows[3][3] = {
        {a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
        {2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
        {2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - c * c - b * b},
    };
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            column[j][i] = rows[i][j] * (j == 2 ? last : 1);
        first[i] = real_at(h, qoffset, i) * unit_of(h);
    }
}

/* Divides the columns by their lengths, which it writes to `length`. False: the columns do not span the
 * space. */
static bool normalise(double column[3][3], double length[3])
{
    double(*c)[3] = column;
    for (int j = 0; j < 3; j++) {
        length[j] = sqrt(c[j][0] * c[j][0] + c[j][1] * c[j][1] + c[j][2] * c[j][2]);
        if (!isfinite(length[j]) || !(length[j] > 0))
            return false;
        for (int i = 0; i < 3; i++)
            c[j][i] /= length[j];
    }
    double volume = c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
                    c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
                    c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]);
    return fabs(volume) > FLAT;
}

/* Assigns an axis of the body to each axis of the file so that the sum of the cosines between assigned axes
 * is largest. */
static void name_axes(double column[3][3], char axes[CLT_AXES])
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    double best = -1;
    for (int k = 0; k < 6; k++) {
        double near = 0;
        for (int j = 0; j < 3; j++)
            near += fabs(column[j][orders[k][j]]);
        if (near <= best)
            continue;
        best = near;
        for (int j = 0; j < 3; j++)
            axes[j] = (column[j][orders[k][j]] > 0 ? "RAS" : "LPI")[orders[k][j]];
    }
    axes[3] = '\0';
}

/* --- sform, qform or pixdim --- */

static void take_pixdim(const clt_nifti *h, double spacing[3])
{
    for (int i = 0; i < 3; i++) {
        double mm = fabs(real_at(h, pixdim, i + 1)) * unit_of(h);
        spacing[i] = isfinite(mm) && mm < 1e6 ? mm : 0;
    }
}

static bool take_sform(const clt_nifti *h, clt_nifti_space *out)
{
    if (whole_at(h, sform_code, 2) <= 0)
        return false;
    from_sform(h, out->column, out->first);
    bool good = normalise(out->column, out->spacing);
    for (int i = 0; i < 3; i++)
        good = good && isfinite(out->first[i]) && out->spacing[i] < 1e6;
    if (good)
        name_axes(out->column, out->axes);
    return good;
}

static bool take_qform(const clt_nifti *h, clt_nifti_space *out)
{
    double length[3];
    if (whole_at(h, qform_code, 2) <= 0)
        return false;
    from_qform(h, out->column, out->first);
    bool good = normalise(out->column, length);
    for (int i = 0; i < 3; i++)
        good = good && isfinite(out->first[i]);
    if (good)
        name_axes(out->column, out->axes);
    take_pixdim(h, out->spacing);
    return good;
}

static bool same_spacing(const double a[3], const double b[3])
{
    bool same = true;
    for (int i = 0; i < 3; i++) /* 0: unknown */
        same = same && (!(a[i] > 0) || !(b[i] > 0) || fabs(a[i] - b[i]) <= SAME_SPACING * b[i]);
    return same;
}

/* Compares pixdim and qform with the sform, and sets out->conflict if they differ. */
static void find_conflict(const clt_nifti *h, clt_nifti_space *out)
{
    const int64_t size[3] = {h->dim[0], h->ndim > 1 ? h->dim[1] : 1, h->ndim > 2 ? h->dim[2] : 1};
    clt_nifti_space q = {.axes = ""};
    double mm[3];
    char text[96];
    take_pixdim(h, mm);
    if (!same_spacing(mm, out->spacing)) {
        (void)snprintf(
            out->conflict, sizeof out->conflict,
            "its pixdim says voxels of %.4g x %.4g x %.4g mm, its sform %.4g x %.4g x %.4g mm; the "
            "sform counts",
            mm[2], mm[1], mm[0], out->spacing[2], out->spacing[1], out->spacing[0]);
        return;
    }
    if (take_qform(h, &q) && clt_nifti_space_differs(out, &q, size, false, text, sizeof text))
        (void)snprintf(out->conflict, sizeof out->conflict, "its qform says %s; the sform counts", text);
}

void clt_nifti_space_of(const clt_nifti *h, clt_nifti_space *out)
{
    memset(out, 0, sizeof *out);
    if (take_sform(h, out)) {
        find_conflict(h, out);
        return;
    }
    bool damaged = whole_at(h, sform_code, 2) > 0, q = take_qform(h, out);
    if (!q) {
        memset(out, 0, sizeof *out);
        take_pixdim(h, out->spacing);
    }
    if (damaged)
        (void)snprintf(out->conflict, sizeof out->conflict,
                       "its sform does not have three directions; %s is used",
                       q ? "its qform" : "only pixdim");
}

/* --- two volumes --- */

/* The axis of the body that is nearest to file axis j. */
static int direction_of(const clt_nifti_space *s, int j, bool *up)
{
    return clt_axis_of(s->axes[j], up);
}

/* Orders the axes right, front, head, and flips the axes that point in the opposite direction. `corner`: the
 * centre of the voxel that is then the first. */
static void to_standard_axes(const clt_nifti_space *s, const int64_t size[3], double column[3][3],
                             double corner[3])
{
    memcpy(corner, s->first, 3 * sizeof *corner);
    for (int j = 0; j < 3; j++) {
        bool up;
        int d = direction_of(s, j, &up);
        for (int i = 0; i < 3; i++) {
            column[d][i] = up ? s->column[j][i] : -s->column[j][i];
            corner[i] += up ? 0 : (double)(size[j] - 1) * s->spacing[j] * s->column[j][i];
        }
    }
}

static bool same_directions(const double a[3][3], const double b[3][3])
{
    bool same = true;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            same = same && fabs(a[j][i] - b[j][i]) <= SAME_DIRECTION;
    return same;
}

static bool same_place(const clt_nifti_space *s, const double a[3], const double b[3])
{
    double least = s->spacing[0];
    bool same = true;
    for (int i = 1; i < 3; i++)
        least = s->spacing[i] < least ? s->spacing[i] : least;
    for (int i = 0; i < 3; i++)
        same = same && fabs(a[i] - b[i]) <= SAME_PLACE * least;
    return same;
}

/* The largest angle between corresponding axes, in degrees. */
static double angle_between(const double a[3][3], const double b[3][3])
{
    double least = 1;
    for (int j = 0; j < 3; j++) {
        double along = a[j][0] * b[j][0] + a[j][1] * b[j][1] + a[j][2] * b[j][2];
        least = along < least ? along : least;
    }
    return acos(least < -1 ? -1 : least) * 180 / acos(-1.0);
}

bool clt_nifti_space_differs(const clt_nifti_space *s, const clt_nifti_space *o, const int64_t size[3],
                             bool turned, char *text, size_t room)
{
    double a[3][3], b[3][3], corner_a[3], corner_b[3];
    size_t used = 0;
    text[0] = '\0';
    if (!same_spacing(o->spacing, s->spacing))
        used = (size_t)snprintf(
            text, room, "voxels of %.4g x %.4g x %.4g mm instead of %.4g x %.4g x %.4g mm", o->spacing[2],
            o->spacing[1], o->spacing[0], s->spacing[2], s->spacing[1], s->spacing[0]);
    if (!s->axes[0] || !o->axes[0] || used >= room)
        return used > 0;
    const char *between = used ? ", " : "";
    bool alike = turned || strcmp(s->axes, o->axes) == 0;
    const double *place_s = turned ? corner_a : s->first, *place_o = turned ? corner_b : o->first;
    to_standard_axes(s, size, a, corner_a);
    to_standard_axes(o, size, b, corner_b);
    if (!alike)
        used +=
            (size_t)snprintf(text + used, room - used, "%saxes %s instead of %s", between, o->axes, s->axes);
    else if (!same_directions(a, b))
        used += (size_t)snprintf(text + used, room - used, "%saxes that are turned by %.2g degrees", between,
                                 angle_between(a, b));
    else if (!same_place(s, place_s, place_o))
        used +=
            (size_t)snprintf(text + used, room - used,
                             "%sthe first voxel at %.5g, %.5g, %.5g mm instead of %.5g, %.5g, %.5g mm",
                             between, place_o[0], place_o[1], place_o[2], place_s[0], place_s[1], place_s[2]);
    if (!alike && used < room && !same_place(s, corner_a, corner_b))
        used += (size_t)snprintf(text + used, room - used, " and the first voxel at another place");
    return used > 0;
}

int clt_axis_of(char letter, bool *up)
{
    static const char letters[] = "RASLPI";
    int place = -1;
    for (int i = 0; i < 6; i++)
        if (letters[i] == letter)
            place = i;
    *up = place >= 0 && place < 3;
    return place < 0 ? -1 : place % 3;
}

bool clt_axes_are(const char *text)
{
    bool seen[3] = {false}, up;
    for (int i = 0; i < 3; i++) {
        int axis = text[i] ? clt_axis_of(text[i], &up) : -1;
        if (axis < 0 || seen[axis])
            return false;
        seen[axis] = true;
    }
    return text[3] == '\0';
}
