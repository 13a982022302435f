/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the voxels of a NIfTI file lie in the body: the distances between them, the directions of the
 * file's axes and the place of the first voxel. It knows the header alone.
 *
 * One rule for all three: they come from the sform, if the header has one (sform_code above 0); else from
 * the qform and pixdim, if it has that (qform_code above 0); else pixdim gives distances, and directions
 * and place are unknown. */
#ifndef ENGINE_DATA_VOLUMES_NIFTI_SPACE_H
#define ENGINE_DATA_VOLUMES_NIFTI_SPACE_H

#include "engine/data/volumes/nifti.h"

/* The directions in which the file's axes x, y and z go, a letter for each: R right, L left, A anterior (the front), P
 * posterior, S superior (the head), I inferior. "RAS": x grows to the right, y to the front, z towards the head. */
#define CLT_AXES 4

typedef struct clt_nifti_space {
    double spacing[3];   /* millimetres between voxels along x, y, z; 0: the header does not say */
    char axes[CLT_AXES]; /* "": the header does not say (neither sform nor qform) */
    /* Where axes is not "": column j is the direction of file axis j (to the right, the front, the head;
     * its length is 1), and first the centre of the first voxel in millimetres. */
    double column[3][3], first[3];
    /* What the header says twice and differently, and what counts; "": nothing. */
    char conflict[160];
} clt_nifti_space;

/* Axes that are oblique get the letter of the direction that is nearest. */
void clt_nifti_space_of(const clt_nifti *header, clt_nifti_space *out);

/* Writes how `other` lies otherwise than `space`, such as "voxels of 2 x 2 x 2 mm instead of 1 x 1 x 1
 * mm", to `text`; returns whether it does. Distances may differ by 0.1 %, directions by about 0.1 degrees,
 * places by a hundredth of a voxel: so much is lost when programs round headers. What one of the two does
 * not say is no difference. size: of the volume along x, y, z. turned: axes in another order or direction
 * are no difference as long as each voxel can be where it was; the corners of both are compared then. */
bool clt_nifti_space_differs(const clt_nifti_space *space, const clt_nifti_space *other,
                             const int64_t size[3], bool turned, char *text, size_t room);

/* The direction, 0 right or left, 1 front or back, 2 head or feet, of a letter; -1 for another one. *up: it is R, A or S. */
int clt_axis_of(char letter, bool *up);
/* Whether a text has three letters, one for each direction. */
bool clt_axes_are(const char *text);

#endif
