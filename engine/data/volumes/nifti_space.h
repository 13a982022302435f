/* SPDX-License-Identifier: Apache-2.0
 *
 * The positions of a NIfTI file's voxels in the body: their spacing, the directions of the file's axes and
 * the position of the first voxel. Only the header is read.
 *
 * All three come from the sform, if the header has one (sform_code above 0); else from the qform and pixdim,
 * if it has a qform (qform_code above 0); else pixdim gives the spacing, and directions and position are
 * unknown. */
#ifndef ENGINE_DATA_VOLUMES_NIFTI_SPACE_H
#define ENGINE_DATA_VOLUMES_NIFTI_SPACE_H

#include "engine/data/volumes/nifti.h"

/* Size of the text that names the directions of the file's axes x, y and z, with its NUL. Each direction is
 * one letter: R right, L left, A anterior (front), P posterior (back), S superior (head), I inferior (feet).
 * "RAS": x grows to the right, y to the front, z towards the head. */
#define CLT_AXES 4

typedef struct clt_nifti_space {
    double spacing[3];   /* millimetres between voxels along x, y, z; 0: the header does not say */
    char axes[CLT_AXES]; /* "": the header does not say (neither sform nor qform) */
    /* Valid if `axes` is not "". `column[j]`: the direction of file axis j, a vector of length 1 (right,
     * front, head). `first`: the centre of the first voxel in millimetres. */
    double column[3][3], first[3];
    /* How the header contradicts itself, and which of its statements is used; "": it does not contradict
     * itself */
    char conflict[160];
} clt_nifti_space;

/* Reads spacing, directions and position. An oblique axis gets the letter of the nearest direction. */
void clt_nifti_space_of(const clt_nifti *header, clt_nifti_space *out);

/* True if `other` has another place in the body than `space`; `text` then says how, such as "voxels of 2 x 2
 * x 2 mm instead of 1 x 1 x 1 mm". There are tolerances, because programs round headers: spacing 0.1 %,
 * directions about 0.1 degrees, positions a hundredth of a voxel. A fact that only one of the two headers
 * gives is no difference. `size`: the size of the volume along x, y, z. `turned`: another order or direction
 * of axes is no difference if the voxels fill the same places; to find this out, the corners of both volumes
 * are compared. */
bool clt_nifti_space_differs(const clt_nifti_space *space, const clt_nifti_space *other,
                             const int64_t size[3], bool turned, char *text, size_t room);

/* The axis of the body that a letter names: 0 right/left, 1 front/back, 2 head/feet; -1: not one of the six
 * letters. *up: the letter is R, A or S. */
int clt_axis_of(char letter, bool *up);
/* True if the text has three letters, one for each axis of the body. */
bool clt_axes_are(const char *text);

#endif
