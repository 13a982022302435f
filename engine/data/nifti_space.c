/* SPDX-License-Identifier: Apache-2.0
 *
 * See nifti_space.h. The rotation is read as nifti1.h says: sform (method 3) before qform (method 2). */
#include "engine/data/nifti_space.h"

#include <math.h>
#include <string.h>

/* Where the two versions have a field. */
typedef struct field {
    int at_1, at_2;
} field;

static const field pixdim = {76, 104}, qform_code = {252, 344}, sform_code = {254, 348}, quatern = {256, 352},
                   srow = {280, 400}, units = {123, 500};

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

/* Column j: the direction of file axis j in the world. */
static void from_sform(const clt_nifti *h, double column[3][3])
{
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            column[j][i] = real_at(h, srow, 4 * i + j);
}

static void from_qform(const clt_nifti *h, double column[3][3])
{
    double b = real_at(h, quatern, 0), c = real_at(h, quatern, 1), d = real_at(h, quatern, 2);
    double rest = 1 - (b * b + c * c + d * d), a = rest > 0 ? sqrt(rest) : 0;
    double last = real_at(h, pixdim, 0) < 0 ? -1 : 1;
    const double rows[3][3] = {
        {a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
        {2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
        {2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - c * c - b * b},
    };
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            column[j][i] = rows[i][j] * (j == 2 ? last : 1);
}

/* Makes the columns as long as 1; false if one has no length. */
static bool normalise(double column[3][3])
{
    for (int j = 0; j < 3; j++) {
        double length =
            sqrt(column[j][0] * column[j][0] + column[j][1] * column[j][1] + column[j][2] * column[j][2]);
        if (!isfinite(length) || !(length > 0))
            return false;
        for (int i = 0; i < 3; i++)
            column[j][i] /= length;
    }
    return true;
}

/* Gives each axis of the file a direction of the world, so that the axes are as near to theirs as possible. */
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

void clt_nifti_space_of(const clt_nifti *h, clt_nifti_space *out)
{
    double column[3][3] = {{0}};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 3; i++) {
        double spacing = fabs(real_at(h, pixdim, i + 1)) * unit_of(h);
        out->spacing[i] = isfinite(spacing) && spacing < 1e6 ? spacing : 0;
    }
    if (whole_at(h, sform_code, 2) > 0)
        from_sform(h, column);
    else if (whole_at(h, qform_code, 2) > 0)
        from_qform(h, column);
    if (normalise(column))
        name_axes(column, out->axes);
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
